// An encoder of the reader's sizes: its layers, one on the other, and where their parameters are. Lesson 11.

"use strict";

moving.stages("stack", stage => {
    const state = moving.state(stage, { layers: 6, width: 9, hidden: 11, heads: 3 }); // but for the layers, powers of two
    const parts = ["attention", "feed_forward", "norms"], names = ["attention", "feed-forward", "norms"];
    const pile = html("div", { class: "pile", role: "img", "aria-label": "the layers of an encoder" }), note = html("p", { role: "status" });
    const whole = value => value.toLocaleString("en-US");
    const compute = moving.steady(stage, async () => {
        const [d, hidden, heads] = [2 ** state.width, 2 ** state.hidden, 2 ** state.heads];
        const formulas = { attention: "4 * (d * d + d)", feed_forward: "2 * d * d_ff + d_ff + d", norms: "2 * 2 * d" };
        const { results } = await lab.ask({ do: "evaluate", given: { d: moving.array([], [d], "integer"), d_ff: moving.array([], [hidden], "integer") }, formulas });
        const counts = parts.map(part => results[part].values[0]), layer = counts.reduce((a, b) => a + b);
        const shares = counts.map(count => count / layer);
        pile.setAttribute("aria-label", `${state.layers} layers, each of ${names.map((name, i) => `${whole(counts[i])} parameters of ${name}`).join(", ")}`);
        pile.replaceChildren(
            html("small", {}, `output: ${shapeText(["b", "n", d])}`),
            ...Array.from({ length: state.layers }, (_, i) => html("div", { class: "layer" }, html("small", {}, `layer ${state.layers - 1 - i}`),
                html("div", { class: "parts", style: `grid-template-columns: ${shares.map(share => `minmax(2px, ${share.toFixed(4)}fr)`).join(" ")}` },
                    ...parts.map((part, j) => html("span", { class: part }, i === 0 && shares[j] > 0.2 ? names[j] : ""))))),
            html("small", {}, `tokens + positions: ${shapeText(["b", "n", d])}`));
        note.textContent = `One layer has ${names.map((name, i) => `${whole(counts[i])} of ${name}`).join(", ")}: ${whole(layer)}. ${state.layers} ${state.layers === 1 ? "layer has" : "layers have"} ${
            whole(state.layers * layer)} parameters, ${Math.round(100 * shares[1])}% of them feed-forward. ${
            heads > d ? `${heads} heads of ${d} features are too many: a head needs one at least.` : `${heads} ${heads === 1 ? "head" : "heads"} of ${d / heads} features: that changes no count.`}`;
    });
    const power = (label, name, min, max) => moving.knob(state, name, label, { min, max, step: 1 }, compute, value => String(2 ** value));
    stage.append(
        html("p", { class: "controls" },
            moving.knob(state, "layers", "layers", { min: 1, max: 12, step: 1 }, compute), power("d_model", "width", 5, 12), power("d_ff", "hidden", 5, 14), power("heads", "heads", 0, 7)),
        pile, note);
});
