// A token's row, made larger and moved up or down: layer norm gives the same row again, RMS norm only where it was made larger. Lesson 9.

"use strict";

moving.stages("norm", stage => {
    const state = moving.state(stage, { plus: 0, times: 0, token: 0 }), runOf = moving.follows("09_feed_forward_and_norm", () => compute());
    const rows = html("div", { class: "strips" }), tokens = html("p", { class: "words" }), note = html("p", { role: "status" });
    const compute = moving.steady(stage, async () => {
        const { shape: [n, d], values } = (await runOf()).step("residual");
        state.token = Math.max(0, Math.min(n - 1, Math.round(state.token)));
        const { results } = await lab.ask({
            do: "evaluate",
            given: { residual: moving.array([d], values.subarray(state.token * d, (state.token + 1) * d)), times: moving.array([], [2 ** state.times]), plus: moving.array([], [state.plus]) },
            formulas: {
                row: "residual * times + plus",
                layer: "(row - mean(row)) / sqrt(mean((row - mean(row)) ** 2) + 1e-5)",
                rms: "row / sqrt(mean(row ** 2) + 1e-5)",
                before: "(residual - mean(residual)) / sqrt(mean((residual - mean(residual)) ** 2) + 1e-5)",
                rms_before: "residual / sqrt(mean(residual ** 2) + 1e-5)",
                change: "max(abs(layer - before))", rms_change: "max(abs(rms - rms_before))",
            },
        });
        tokens.replaceChildren(...Array.from({ length: n }, (_, i) => html("button", { type: "button", "aria-pressed": String(i === state.token), onclick: () => { state.token = i; compute(); } }, `token ${i}`)));
        const strip = (name, meaning, part, largest) => [html("div", { class: "name" }, html("strong", {}, name), html("small", {}, meaning)),
            html("div", {}, html("div", { class: "strip", "data-step": part }, ...moving.cells(results[part].values, largest)))];
        rows.replaceChildren(...strip("the row", "after the residual connection, moved", "row", 12),
            ...strip("layer norm", "less its mean, divided by its spread", "layer", 2), ...strip("RMS norm", "divided by the root of its mean square", "rms", 2));
        const text = name => numberText(results[name].values[0], ".4f", "real");
        note.textContent = `Times ${2 ** state.times}, plus ${state.plus}: layer norm changes by ${text("change")}, RMS norm by ${text("rms_change")}. What is left of a change of layer norm is the ε in the root.`;
    });
    stage.append(tokens, html("p", { class: "controls" },
        moving.knob(state, "plus", "plus", { min: -4, max: 4, step: 0.5 }, compute), moving.knob(state, "times", "times", { min: -2, max: 2, step: 0.5 }, compute, value => (2 ** value).toFixed(2))), rows, note);
});
