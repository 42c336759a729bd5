// Scores of a drawn query for more and more features, divided or not: the weights saturate. Lesson 3.

"use strict";

for (const stage of moving.stages("saturation")) {
    const most = 1024, tokens = 8;
    let drawn = [], features = 64, power = 0;

    function draw() {
        drawn = Array.from({ length: tokens + 1 }, () => Array.from({ length: most }, moving.normal)); // the query, and a row per key
        compute();
    }

    const bars = html("div", { class: "bars", role: "img" }), note = html("p", { role: "status" });
    const compute = moving.steady(stage, async () => {
        if (drawn.length === 0) {
            return;
        }
        const { results } = await lab.ask({
            do: "evaluate",
            given: {
                query: moving.array([features], drawn[0].slice(0, features)),
                keys: moving.array([tokens, features], drawn.slice(1).flatMap(key => key.slice(0, features))),
                power: moving.array([], [power]),
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

    stage.append(
        html("p", { class: "controls" },
            moving.slider("features d_k", { min: 0, max: 10, step: 1, value: 6 }, (value, output) => {
                features = 2 ** value;
                output.textContent = features;
                compute();
            }),
            moving.slider("divisor d_k to the power", { min: 0, max: 1, step: 0.05, value: 0 }, (value, output) => {
                power = value;
                output.textContent = `${value.toFixed(2)}${value === 0 ? ", no division" : value === 0.5 ? ", the root" : value === 1 ? ", d_k itself" : ""}`;
                compute();
            }),
            html("button", { type: "button", onclick: draw }, "draw another query")),
        bars, note);
    draw();
}
