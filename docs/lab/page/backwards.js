// The error of one token's output walks back through attention: what of it arrives at values, weights, scores, queries, keys, and at each
// token. The numbers that are given are those of the lesson's run; the way back is computed here. Lesson 14.

"use strict";

moving.stages("backwards", stage => {
    const given = moving.recorded(stage), [n] = given.inputs.shape, state = moving.state(stage, { token: 0, step: 1 });
    const forward = {
        queries: "inputs @ query_weights", keys: "inputs @ key_weights", values: "inputs @ value_weights",
        weights: "softmax(queries @ keys.T / sqrt(keys.shape[1]))",
    };
    // Each step back: its formula, and what it says. An error of 0 sends nothing.
    const steps = [
        ["output", "where(asked[:, None], weights @ values - target, 0)", "the error: output − target"],
        ["values", "weights.T @ grad_output", "each value gets the error, times its weight"],
        ["weights", "grad_output @ values.T", "how each weight should change"],
        ["scores", "weights * (grad_weights - sum(grad_weights * weights, axis=-1, keepdims=True)) / sqrt(keys.shape[1])", "less their mean, by the weights: a row sums to 0"],
        ["queries", "grad_scores @ keys", "the query of the token with the error"],
        ["keys", "grad_scores.T @ queries", "the keys of all tokens"],
        ["inputs", "grad_queries @ query_weights.T + grad_keys @ key_weights.T + grad_values @ value_weights.T", "all three parts, added, at every token"],
    ];

    const rows = html("div", { class: "strips", "aria-live": "polite" }), note = html("p", { role: "status" });
    const compute = moving.steady(stage, async () => {
        const { results } = await lab.ask({
            do: "evaluate",
            given: { ...Object.fromEntries(Object.entries(given).map(([name, { shape, values }]) => [name, moving.array(shape, values)])),
                asked: moving.array([n], Array.from({ length: n }, (_, i) => Number(state.token === n || i === state.token)), "boolean") },
            formulas: { ...forward, ...Object.fromEntries(steps.map(([name, formula]) => [`grad_${name}`, formula])), norms: "sqrt(sum(grad_inputs ** 2, axis=1))" },
        });
        rows.replaceChildren(...steps.slice(0, state.step + 1).flatMap(([name, , meaning]) => {
            const { shape: [, width], values } = results[`grad_${name}`], largest = Math.max(...values.map(Math.abs)) || 1;
            const strips = Array.from({ length: n }, (_, i) => values.slice(i * width, (i + 1) * width)).map((row, i) => [`token ${i}`, row]).filter(([, row]) => row.some(value => value !== 0));
            return [html("div", { class: "name" }, html("strong", {}, name), html("small", {}, meaning)),
                html("div", { "data-step": `grad.${name}` }, ...strips.map(([label, row]) => html("div", { class: "labelled" }, html("small", {}, label), html("div", { class: "strip" }, ...moving.cells(row, largest)))))];
        }));
        const norms = results.norms.values.map(norm => numberText(norm, ".2f", "real"));
        note.textContent = state.step < steps.length - 1 ? "Blue numbers should become smaller, orange ones larger: the gradient points to where the loss grows."
            : `The size of what arrives at tokens 0, 1, …: ${norms.join(", ")}. ${state.token < n ? `Only token ${state.token} had an error, and every token that it attends to can make it smaller.` : "This is the lesson's gradient of the inputs."}`;
        walk.show();
    });
    const walk = moving.steps(state, "step", () => steps.length - 1, () => compute());
    stage.append(html("p", { class: "controls" }, walk.element, moving.choice(state, "token", [...Array.from({ length: n }, (_, i) => `error of token ${i}`), "of all"], () => compute())), rows, note);
});
