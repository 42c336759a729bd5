// The small model in a window of the reader's choice, with its first words kept or not: its maps and the next word. Lesson 25.

"use strict";

moving.stages("windows", stage => {
    const runWith = moving.runs("25_windows_and_sinks"), state = moving.state(stage, { width: 12, kept: 1 });
    const maps = html("div", { class: "maps" }), next = html("div", { class: "next" }), note = html("p", { role: "status" });
    const compute = moving.steady(stage, async () => {
        const run = await runWith(Object.fromEntries(Object.entries(state).map(([name, value]) => [name, moving.array([1], [value], "integer")])));
        const vocabulary = attnWords.small_model, words = [...run.step("ids").values].map(id => vocabulary[id]), n = words.length;
        const heads = [...run.steps.keys()].filter(path => /^with_first\.layers\.\d\.self_attn\.head\.\d\.weights$/.test(path));
        maps.replaceChildren(...heads.map(path => {
            const [, layer, head] = /layers\.(\d)\.self_attn\.head\.(\d)/.exec(path);
            return html("figure", {}, moving.map(words, run.step(path).values, `weights of layer ${layer}, head ${head}`), html("figcaption", {}, `layer ${layer}, head ${head}`));
        }));
        const last = scope => run.step(`${scope}.chances`).values.slice(-vocabulary.length);
        next.replaceChildren(...moving.wordBars([["all words", last("all")], ["the window", last("window")], ["and the first kept", last("with_first")]], vocabulary, 3));

        // Why: what any head lets the last word have of the name, which is the first.
        const most = scope => Math.max(...heads.map(path => run.step(path.replace("with_first", scope)).values[(n - 1) * n]));
        const said = scope => `${numberText(last(scope)[vocabulary.indexOf(words[0])], ".2f", "real")}`;
        const [first, end] = [words[0], words[n - 1]].map(word => `“${word}”`);
        note.textContent = `${end} is ${n - 1} words after ${first}. With all words, ${end} puts up to ${numberText(most("all"), ".2f", "real")} of a head's weight on ${first}; in the window ${
            numberText(most("window"), ".2f", "real")}; with the first kept ${numberText(most("with_first"), ".2f", "real")}. The model then gives ${first} the probability ${said("all")}, ${said("window")} and ${said("with_first")}.`;
    });
    stage.append(
        html("p", { class: "controls" }, moving.knob(state, "kept", "first words kept", { min: 0, max: 4, step: 1 }, compute), moving.knob(state, "width", "window", { min: 1, max: 20, step: 1 }, compute)),
        html("div", { class: "story" }, maps, next), note);
});
