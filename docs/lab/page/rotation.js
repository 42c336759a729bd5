// A query and a key, rotated by their positions: both turn, and their product depends on the distance only. Beside it, positions that are
// added. Lesson 16.

"use strict";

moving.stages("rotation", stage => {
    const state = moving.state(stage, { position: 2, distance: 4 }), runOf = moving.follows("16_rotary_and_alibi", () => compute());
    const clocks = html("div", { class: "clocks two" }), numbers = html("table", { class: "tensor-values" }), note = html("p", { role: "status" });
    const compute = moving.steady(stage, async () => {
        const { shape: [, d], values } = (await runOf()).step("tokens"), row = i => [...values.subarray(i * d, (i + 1) * d)];
        const turned = (name, place) => ({
            [`${name}_angles`]: `${place} * frequencies`,
            [`${name}_turned`]: `interleave(${name}[::2] * cos(${name}_angles) - ${name}[1::2] * sin(${name}_angles), ${name}[::2] * sin(${name}_angles) + ${name}[1::2] * cos(${name}_angles))`,
            [`${name}_added`]: `${name} + interleave(sin(${name}_angles), cos(${name}_angles))`,
        });
        const { results } = await lab.ask({
            do: "evaluate",
            given: { q: moving.array([d], row(1)), k: moving.array([d], row(2)), n: moving.array([], [state.position + state.distance]), m: moving.array([], [state.position]) },
            formulas: {
                frequencies: `10000 ** (-2 * arange(${d / 2}) / ${d})`,
                ...turned("q", "n"), ...turned("k", "m"),
                turned_product: "q_turned @ k_turned", added_product: "q_added @ k_added",
            },
        });
        const at = name => results[name].values, size = Math.max(...["q_turned", "k_turned"].flatMap(name => Array.from({ length: d / 2 }, (_, i) => Math.hypot(...at(name).slice(2 * i, 2 * i + 2))))) || 1;
        const hand = (name, colour, array, i) => {
            const [x, y] = array.slice(2 * i, 2 * i + 2);
            return { name, colour, angle: Math.atan2(y, x), length: Math.hypot(x, y) / size };
        };
        clocks.replaceChildren(...at("frequencies").map((frequency, i) => html("figure", {},
            moving.dial(`pair ${i}`, [hand("key", "--attn-orange", at("k_turned"), i), hand("query", "--attn-blue", at("q_turned"), i)]),
            html("figcaption", {}, `pair ${i}: ${numberText(frequency, ".2f", "real")} radians per position`))));
        const product = name => numberText(at(name)[0], ".4f", "real");
        numbers.innerHTML = `<tr><th></th><th>query · key</th></tr><tr><th>rotated</th><td>${product("turned_product")}</td></tr><tr><th>positions added</th><td>${product("added_product")}</td></tr>`;
        note.textContent = `Blue: the query at position ${state.position + state.distance}, orange: the key at ${state.position}. Move the key's position, and the query moves with it: both hands turn by the same angle, and the product of what was rotated stays; where positions are added, it changes.`;
    });
    stage.append(
        html("p", { class: "controls" }, moving.knob(state, "position", "position of the key", { min: 0, max: 60, step: 1 }, compute), moving.knob(state, "distance", "distance to the query", { min: 0, max: 20, step: 1 }, compute)),
        clocks, html("div", { class: "scroll" }, numbers), note);
});
