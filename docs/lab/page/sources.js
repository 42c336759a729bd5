// One token's attention, with keys and values from its own sequence or from another, in their order or reversed. Lesson 7.

"use strict";

moving.stages("sources", stage => {
    const state = moving.state(stage, { from: 0, token: 3 });
    const runOf = moving.follows("07_self_and_cross", () => compute());
    // Where keys and values come from: the scope of the run, their sequence, and which of its m tokens is key j and value j.
    const sources = [
        ["the passage itself", "self", "passage", j => j, j => j],
        ["the question", "cross", "question", j => j, j => j],
        ["the question, reversed", "shuffled", "question", (j, m) => m - 1 - j, (j, m) => m - 1 - j],
        ["only its keys reversed", "apart", "question", (j, m) => m - 1 - j, j => j],
    ];

    const words = html("p", { class: "words" }), rows = html("div", { class: "strips", "aria-live": "polite" }), note = html("p", { role: "status" });
    const compute = moving.steady(stage, async () => {
        const run = await runOf(), [, scope, sequence, keyOf, valueOf] = sources[state.from];
        const queries = run.step("passage"), others = run.step(sequence), [m, features] = others.shape, n = queries.shape[0];
        state.token = Math.max(0, Math.min(n - 1, Math.round(state.token)));
        words.replaceChildren("the query is passage token ", ...Array.from({ length: n }, (_, i) => html("button", { type: "button", "aria-pressed": String(i === state.token), onclick: () => { state.token = i; compute(); } }, i)));

        const row = (step, i) => { const size = step.shape[1]; return [...step.values.subarray(i * size, (i + 1) * size)]; };
        const [scores, weights, context] = ["scores", "weights", "context"].map(name => row(run.step(`${scope}.${name}`), state.token));
        const largest = Math.max(...[queries, others].flatMap(step => [...step.values].map(Math.abs)), 1e-12);
        const strip = (name, values) => html("div", { class: "strip", "data-step": name }, ...moving.cells(values, largest));
        const line = (name, said, ...shown) => [html("div", { class: "name" }, html("strong", {}, name), html("small", {}, said)), html("div", {}, ...shown)];
        rows.replaceChildren(
            ...line("query", `row ${state.token} of the passage`, strip("query", row(queries, state.token))),
            ...weights.flatMap((weight, j) => [
                html("div", { class: "name" }, html("strong", {}, `key ${j}`), html("small", {}, `${sequence} ${keyOf(j, m)}: score ${numberText(scores[j], ".2f", "real")}`)),
                html("div", { class: "taken" }, strip(`key ${j}`, row(others, keyOf(j, m))), html("span", { class: "cell", style: `--strength: ${weight}` }, `weight ${numberText(weight, ".2f", "real")}`),
                    html("small", {}, `of value ${j}, ${sequence} ${valueOf(j, m)}`)),
            ]),
            ...line("context", "the values' mean by these weights", strip("context", context)));
        const before = row(run.step("cross.context"), state.token), isSame = context.every((value, i) => value.toFixed(9) === before[i].toFixed(9));
        note.textContent = `${n} queries and ${m} keys: the weights of all queries have the shape ${shapeText([n, m])}, the context ${shapeText([n, features])}. ${
            state.from < 2 ? "" : `The context of this token is ${isSame ? "the same as in the question's own order" : "another than in the question's own order"}.`}`;
    });
    stage.append(
        html("p", { class: "controls" }, "keys and values from ", moving.choice(state, "from", sources.map(([name]) => name), () => compute())),
        words, rows, note);
});
