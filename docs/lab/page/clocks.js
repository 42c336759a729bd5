// The sinusoids of a position as clocks: pairs of features turn at different speeds, and so many positions later each hand has turned by
// the same angle, wherever one begins. Lesson 8.

"use strict";

moving.stages("clocks", stage => {
    const state = moving.state(stage, { position: 5, later: 3 });
    const clocks = html("div", { class: "clocks" }), note = html("p", { role: "status" });
    const compute = moving.steady(stage, async () => {
        const { results } = await lab.ask({
            do: "evaluate",
            given: { p: moving.array([], [state.position]), k: moving.array([], [state.later]) },
            formulas: {
                frequencies: "10000 ** (-2 * arange(4) / 8)",
                angles: "p * frequencies",
                row: "interleave(sin(angles), cos(angles))",
                later_angles: "(p + k) * frequencies",
                later_row: "interleave(sin(later_angles), cos(later_angles))",
                product: "sum(row * later_row)",
            },
        });
        const { frequencies, angles, later_angles, row } = Object.fromEntries(Object.entries(results).map(([name, { values }]) => [name, values]));
        clocks.replaceChildren(...frequencies.map((frequency, i) => html("figure", {},
            moving.dial(`pair ${i}`, [ // as a clock: upright at the angle 0, clockwise
                { name: `position ${state.position + state.later}`, angle: Math.PI / 2 - later_angles[i], length: 0.9, colour: "--attn-orange" },
                { name: `position ${state.position}`, angle: Math.PI / 2 - angles[i], length: 1, colour: "--attn-blue" }]),
            html("figcaption", {}, `pair ${i}: ${numberText(frequency, ".3f", "real")} per position`, html("div", { class: "strip" }, ...moving.cells(row.slice(2 * i, 2 * i + 2), 1))))));
        note.textContent = `Blue: position ${state.position}, orange: ${state.later} later. The product of the two rows is ${
            numberText(results.product.values[0], ".4f", "real")}: move the position, and it stays, since all blue and orange hands turn together; only the distance changes it.`;
    });
    stage.append(
        html("p", { class: "controls" }, moving.knob(state, "position", "position p", { min: 0, max: 100, step: 1 }, compute), moving.knob(state, "later", "positions later k", { min: 0, max: 20, step: 1 }, compute)),
        clocks, note);
});
