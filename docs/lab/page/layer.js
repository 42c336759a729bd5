// One word through an encoder layer: its row after each step, and the words that it takes from. Lesson 10.

"use strict";

moving.stages("layer", stage => {
    const state = moving.state(stage, { model: 0, word: 5, step: 1 });
    const trained = moving.follows("13_transformer", () => compute()), small = moving.follows("10_encoder_layer", () => compute());
    const steps = [
        ["x", "x", "the row of this word"],
        ["self_attn.output", "attention", "the only step that reads the rows of other words"],
        ["norm1.output", "add & norm", "x + attention, brought to mean 0 and variance 1"],
        ["feed_forward.output", "feed-forward", "made of the row above alone"],
        ["output", "output", "the row above that + feed-forward, normalised again: as long as x, for the next layer"],
    ];

    const words = html("p", { class: "words" }), rows = html("div", { class: "strips", "aria-live": "polite" });
    const compute = moving.steady(stage, async () => {
        const run = await [trained, small][state.model](), scope = ["encoder.layers.0.", ""][state.model];
        const at = path => run.step(scope + path), [n, features] = at("x").shape, vocabulary = attnWords.translator;
        const names = state.model === 0 ? [...run.step("source_ids").values].map(id => vocabulary[id]) : Array.from({ length: n }, (_, i) => `token ${i}`);
        state.word = Math.max(0, Math.min(n - 1, Math.round(state.word)));
        words.replaceChildren("follow ", ...names.map((name, i) => html("button", { type: "button", "aria-pressed": String(i === state.word), onclick: () => { state.word = i; compute(); } }, name)));

        const rowOf = path => at(path).values.subarray(state.word * features, (state.word + 1) * features);
        const heads = [0, 1].map(head => [head, at(`self_attn.head.${head}.weights`).values.subarray(state.word * n, (state.word + 1) * n)]);
        const strongest = heads.flatMap(([head, weights]) => [...weights].map((weight, i) => ({ head, weight, i }))).filter(({ i }) => i !== state.word).reduce((a, b) => b.weight > a.weight ? b : a);
        const others = html("div", { class: "heads" }, ...heads.map(([head, weights]) => html("div", {}, html("small", {}, `head ${head} takes from`), moving.weighed(names, weights))),
            html("p", {}, `Of other words “${names[state.word]}” takes most from “${names[strongest.i]}”: ${numberText(strongest.weight, ".2f", "real")} of the weight in head ${strongest.head}.`));
        rows.replaceChildren(...steps.slice(0, state.step + 1).flatMap(([path, name, meaning], i) => [
            html("div", { class: "name" }, html("strong", {}, name), html("small", {}, meaning)),
            html("div", {}, ...(i === 1 ? [others] : []), html("div", { class: features > 8 ? "strip many" : "strip", "data-step": scope + path }, ...moving.cells(rowOf(path), 2.5, features > 8 ? ".1f" : ".2f"))),
        ]));
        walk.show();
    });
    const walk = moving.steps(state, "step", () => steps.length - 1, () => compute());
    stage.append(
        html("p", { class: "controls" }, walk.element, moving.choice(state, "model", ["six words, trained", "the three tokens below"], () => compute())),
        words, rows);
});
