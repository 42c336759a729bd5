// Pairs that a state recalls, some of whose keys are written a second time, with another value. Lesson 27.

"use strict";

moving.stages("state", stage => {
    const runWith = moving.runs("27_state"), features = 8, most = 24, state = moving.state(stage, { again: 3, pairs: 6, decay: 0.9, seed: 8 });
    const answers = { recalled: "the value written last", old: "the value written first", both: "as near to either of its values", other: "another key's value is nearer" };
    const rows = html("div", { class: "recalls" }), note = html("p", { role: "status" });

    const compute = moving.steady(stage, async () => {
        // The last pairs have the keys of the first ones again.
        const n = state.pairs, again = Math.min(state.again, Math.floor(n / 2)), size = n * features, fresh = (n - again) * features;
        const keys = moving.normals(state.seed, most * features), values = moving.normals(state.seed + 1e6, most * features);
        const pairs = numbers => moving.array([n, features], numbers);
        const run = await runWith({ decay: moving.array([1], [state.decay]), pair_values: pairs(values.slice(0, size)), pair_keys: pairs([...keys.slice(0, fresh), ...keys.slice(0, again * features)]) });

        const rules = [["attention with softmax", "attention"], ["a sum", "sum"], ["a sum with decay", "faded"], ["the delta rule", "delta"]];
        rows.replaceChildren(...rules.flatMap(([name, rule]) => {
            const similar = run.step(`recall.${rule}.similar`).values;
            const asked = Array.from({ length: n - again }, (_, key) => {
                const wanted = key < again ? n - again + key : key; // the value written last under this key
                const found = similar.subarray(wanted * n, (wanted + 1) * n), nearest = found.indexOf(Math.max(...found));
                const isBoth = key < again && [wanted, key].includes(nearest) && Math.abs(found[wanted] - found[key]) < 0.1;
                return { key, isAgain: key < again, came: isBoth ? "both" : nearest === wanted ? "recalled" : nearest === key ? "old" : "other" };
            });
            const right = asked.filter(({ came }) => came === "recalled").length;
            return [html("span", {}, name),
                html("span", { class: "pairs", role: "img", "aria-label": `${name} gives the value written last for ${right} of ${asked.length} keys` },
                    ...asked.map(({ key, isAgain, came }) => html("i", { class: came, title: `key ${key}${isAgain ? ", written twice" : ""}: ${answers[came]}` }, isAgain ? "2×" : ""))),
                html("span", {}, `${right} of ${asked.length}`)];
        }));
        note.textContent = `A state of ${features} by ${features} numbers; a cell per key, the oldest on the left. Blue: what comes back is nearest to the value written last under that key; orange: to the value written there first; both colours: as near to either, up to 0.1; empty: nearest to another key's.${
            again > 0 ? " A sum has both values of a key, and attention takes their mean; only the delta rule takes the first one out before it writes the second." : ""}`;
    });
    stage.append(
        html("p", { class: "controls" },
            moving.knob(state, "again", "keys written again", { min: 0, max: 12, step: 1 }, compute),
            moving.knob(state, "pairs", "pairs", { min: 2, max: most, step: 1 }, compute),
            moving.knob(state, "decay", "decay", { min: 0.2, max: 1, step: 0.05 }, compute, value => value.toFixed(2)),
            html("button", { type: "button", onclick: () => { state.seed++; compute(); } }, "draw other pairs")),
        rows, note);
});
