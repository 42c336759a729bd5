// Pairs that a state recalls, for a decay and a number of pairs of the reader's choice. Lesson 27.

"use strict";

for (const stage of moving.stages("state")) {
    const runWith = moving.runs("27_state"), features = 8, most = 24, choice = { decay: 0.9, pairs: 6 };
    let drawn = [];
    const rows = html("div", { class: "recalls" }), note = html("p", { role: "status" });

    const compute = moving.steady(stage, async () => {
        const pairs = numbers => moving.array([choice.pairs, features], numbers.slice(0, choice.pairs * features));
        const run = await runWith({ decay: moving.array([1], [choice.decay]), pair_keys: pairs(drawn[0]), pair_values: pairs(drawn[1]) });
        const rules = [["attention with softmax", "attention"], ["a sum", "sum"], ["a sum with decay", "faded"], ["the delta rule", "delta"]];
        rows.replaceChildren(...rules.flatMap(([name, rule]) => {
            const { values } = run.step(`recall.${rule}.similar`), n = choice.pairs;
            const isRecalled = Array.from({ length: n }, (_, i) => values[i * n + i] >= Math.max(...values.subarray(i * n, (i + 1) * n)));
            return [html("span", {}, name),
                html("span", { class: "pairs", role: "img", "aria-label": `${name} recalls ${isRecalled.filter(Boolean).length} of ${n} pairs` },
                    ...isRecalled.map((is, i) => html("i", { class: is ? "recalled" : "", title: `pair ${i}${is ? "" : ": another value is nearer"}` }))),
                html("span", {}, numberText(run.step(`recall.${rule}.right`).values[0], ".2f", "real"))];
        }));
        note.textContent = `A state of ${features} by ${features} numbers; the oldest pair is on the left, the newest on the right.`;
        stage.dataset.ready = `${choice.pairs} ${choice.decay.toFixed(2)}`;
    });
    function draw() {
        drawn = [0, 1].map(() => Array.from({ length: most * features }, moving.normal));
        compute();
    }
    stage.append(
        html("p", { class: "controls" },
            moving.slider("pairs", { min: 1, max: most, step: 1, value: choice.pairs }, (value, output) => {
                choice.pairs = value;
                output.textContent = value;
                if (drawn.length > 0) {
                    compute();
                }
            }),
            moving.slider("decay", { min: 0.2, max: 1, step: 0.05, value: choice.decay }, (value, output) => {
                choice.decay = value;
                output.textContent = value.toFixed(2);
                if (drawn.length > 0) {
                    compute();
                }
            }),
            html("button", { type: "button", onclick: draw }, "draw other pairs")),
        rows, note);
    draw();
}
