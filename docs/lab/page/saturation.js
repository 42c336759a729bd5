// Scores of a drawn query for more and more features, divided or not: the weights saturate. Lesson 3.

"use strict";

moving.stages("saturation", stage => {
    const most = 1024, tokens = 8;
    const state = moving.state(stage, { features: 6, power: 0, seed: 1 });

    const bars = html("div", { class: "bars", role: "img", "aria-label": "weights" }), note = html("p", { role: "status" });
    const compute = moving.steady(stage, async () => {
        const features = 2 ** state.features, drawn = moving.normals(state.seed, (tokens + 1) * most); // the query, and a row per key
        const row = i => drawn.slice(i * most, i * most + features);
        const { results } = await lab.ask({
            do: "evaluate",
            given: {
                query: moving.array([features], row(0)),
                keys: moving.array([tokens, features], Array.from({ length: tokens }, (_, j) => row(j + 1)).flat()),
                power: moving.array([], [state.power]),
            },
            formulas: { scores: "keys @ query", scaled: "scores / query.shape[0] ** power", weights: "softmax(scaled)", slope: "max(weights * (1 - weights))", largest: "max(weights)", spread: "sqrt(mean(scaled ** 2))" },
        });
        const [scaled, weights] = [results.scaled.values, results.weights.values];
        bars.setAttribute("aria-label", `weights ${weights.map(value => value.toFixed(2)).join(", ")}`);
        bars.replaceChildren(...weights.map((weight, j) => html("div", { class: "bar", style: `--share: ${weight}` },
            html("span", {}, numberText(weight, ".2f", "real")), html("i"), html("small", {}, numberText(scaled[j], ".1f", "real")))));
        note.textContent = `The scores have the size ${numberText(results.spread.values[0], ".2f", "real")} (root of their mean square), the largest weight is ${
            numberText(results.largest.values[0], ".4f", "real")}, and the steepest slope of softmax ${numberText(results.slope.values[0], ".4f", "real")} (0.25 at most).`;
    });

    const divisors = new Map([[0, "no division"], [0.5, "the root"], [1, "d_k itself"]]);
    stage.append(
        html("p", { class: "controls" },
            moving.knob(state, "features", "features d_k", { min: 0, max: 10, step: 1 }, compute, value => String(2 ** value)),
            moving.knob(state, "power", "divisor d_k to the power", { min: 0, max: 1, step: 0.05 }, compute, value => [value.toFixed(2), divisors.get(value)].filter(Boolean).join(", ")),
            html("button", { type: "button", onclick: () => { state.seed++; compute(); } }, "draw another query")),
        bars, note);
});
