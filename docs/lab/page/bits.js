// The keys of a head in few bits: the reader makes one channel large, chooses the type, which numbers share a scale, and whether keys and
// queries are rotated first; sees what is left of each number, and the error of the scores. Lesson 31.

"use strict";

moving.stages("bits", stage => {
    const state = moving.state(stage, { channel: 2, power: 4, type: 1, scale: 0, turned: 0 });
    const runWith = moving.follows("31_fewer_bits", () => compute());
    const types = [["int8", "round", 127], ["int4", "round", 7], ["float8 e4m3", "float8_e4m3", 448], ["float8 e5m2", "float8_e5m2", 57344]];
    const scales = ["a scale per token", "per block of 4", "per channel", "one for all"];
    const heads = html("div", { class: "maps two" }), line = html("div", { class: "codes" }), note = html("p", { role: "status" });

    // A number per cell, blue where positive and orange where negative, by the largest.
    function map(words, { shape, values }, label, shown) {
        const [n, d] = shape, largest = Math.max(...values.map(Math.abs));
        const cells = values.map((value, i) => svg("rect", { x: i % d, y: Math.floor(i / d), width: 1, height: 1, class: value < 0 ? "negative" : "", "fill-opacity": Math.abs(value / largest).toFixed(3) },
            svg("title", {}, `${words[Math.floor(i / d)]}, channel ${i % d}: ${numberText(value, ".2f", "real")}`)));
        const names = words.map((word, i) => svg("text", { x: -0.2, y: i + 0.75, "text-anchor": "end", style: "font-size: 0.75px" }, word));
        return svg("svg", { viewBox: `-3 -0.3 ${d + 3.3} ${n + 0.6}`, role: "img", "aria-label": `${label}, from ${shown(Math.min(...values))} to ${shown(largest)} in size` },
            svg("rect", { x: 0, y: 0, width: d, height: n, class: "frame" }), ...cells, ...names);
    }

    const compute = moving.steady(stage, async () => {
        const run = await runWith(), head = "exact.layers.1.self_attn.head.0", vocabulary = attnWords.small_model;
        const words = [...run.step("ids").values].map(id => vocabulary[id]);
        const given = name => { const { shape, values } = run.step(`${head}.${name}`); return moving.array(shape, values); };
        const [name, grid, largest] = types[state.type], x = state.scale === 1 ? "blocks" : "keys";
        const limit = state.scale === 3 ? "max(abs(keys))" : `max(abs(${x}), axis=${state.scale === 2 ? 0 : 1}, keepdims=True)`;
        const n = words.length, d = given("keys").shape[1];
        const { results } = await lab.ask({
            do: "evaluate",
            given: { exact_keys: given("keys"), exact_queries: given("queries"), rotation: moving.array(run.step("rotated.rotation").shape, run.step("rotated.rotation").values), channel: moving.array([], [state.channel]), factor: moving.array([], [2 ** state.power]), turned: moving.array([], [state.turned]) },
            formulas: {
                factors: `factor ** maximum(1 - abs(arange(${d}) - channel), 0)`,
                keys: state.turned ? "(exact_keys * factors) @ rotation" : "exact_keys * factors",
                queries: state.turned ? "(exact_queries / factors) @ rotation" : "exact_queries / factors",
                blocks: `reshape(keys, ${n * d / 4}, 4)`,
                scale: `${limit} / ${largest}`,
                codes: `${grid}(${x} / scale)`,
                stored: `reshape(codes * scale, ${n}, ${d})`,
                exact: `queries @ keys.T / sqrt(${d})`,
                off: `sqrt(mean((queries @ stored.T / sqrt(${d}) - exact) ** 2))`,
                size: "sqrt(mean(exact ** 2))",
                zeros: "sum(1 * (stored == 0))",
            },
        });
        const shown = number => numberText(number, ".2f", "real"), value = of => results[of].values[0];
        heads.replaceChildren(...[["keys", "the keys"], ["stored", "what is read back"]].map(([of, title]) => html("figure", {},
            map(words, { shape: [n, d], values: results[of].values.map(Number) }, title, shown), html("figcaption", {}, title))));

        // What is stored of the last word.
        const last = results.codes.values.map(Number).slice(-d);
        line.replaceChildren(html("small", {}, `codes of “${words[n - 1]}”`), html("div", { class: "strip" }, ...moving.cells(last, largest, grid === "round" ? ".0f" : ".3g")));
        note.textContent = `${name}, ${scales[state.scale]}${state.turned ? ", after a rotation" : ""}: scores of size ${shown(value("size"))} are off by ${numberText(value("off"), ".3f", "real")} (roots of mean squares); ${
            value("zeros")} of ${n * d} numbers are stored as zero. Beside the codes ${results.scale.values.length === 1 ? "one scale is" : `${results.scale.values.length} scales are`} stored.`;
    });
    stage.append(
        html("p", { class: "controls" },
            moving.knob(state, "power", "one channel of the keys times", { min: 0, max: 7, step: 1 }, compute, power => String(2 ** power)),
            moving.knob(state, "channel", "which channel", { min: 0, max: 7, step: 1 }, compute)),
        html("p", { class: "controls" }, moving.choice(state, "type", types.map(([name]) => name), () => compute())),
        html("p", { class: "controls" }, moving.choice(state, "scale", scales, () => compute()), moving.choice(state, "turned", ["as they are", "rotated first"], () => compute())),
        heads, line, note);
});
