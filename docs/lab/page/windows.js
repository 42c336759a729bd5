// The small model in a window of the reader's choice, with its first words kept or not: its maps and the next word. Lesson 25.

"use strict";

for (const stage of moving.stages("windows")) {
    const runWith = moving.runs("25_windows_and_sinks"), choice = { width: 6, kept: 1 };
    const maps = html("div", { class: "maps" }), next = html("div", { class: "next" });
    const compute = moving.steady(stage, async () => {
        const run = await runWith(Object.fromEntries(Object.entries(choice).map(([name, value]) => [name, moving.array([1], [value], "integer")])));
        const vocabulary = attnWords.small_model, words = [...run.step("ids").values].map(id => vocabulary[id]);
        const heads = [...run.steps.keys()].filter(path => /^with_first\.layers\.\d\.self_attn\.head\.\d\.weights$/.test(path));
        maps.replaceChildren(...heads.map(path => {
            const [, layer, head] = /layers\.(\d)\.self_attn\.head\.(\d)/.exec(path);
            return html("figure", {}, moving.map(words, run.step(path).values, `weights of layer ${layer}, head ${head}`), html("figcaption", {}, `layer ${layer}, head ${head}`));
        }));
        const last = scope => run.step(`${scope}.chances`).values.slice(-vocabulary.length);
        next.replaceChildren(...moving.wordBars([["all tokens", last("all")], ["the window", last("window")], ["and the first kept", last("with_first")]], vocabulary, 3));
        stage.dataset.ready = `${choice.width} ${choice.kept}`;
    });
    const slider = (label, name, min, max) => moving.slider(label, { min, max, step: 1, value: choice[name] }, (value, output) => {
        choice[name] = value;
        output.textContent = value;
        compute();
    });
    stage.append(html("p", { class: "controls" }, slider("window", "width", 1, 20), slider("first words kept", "kept", 0, 4)), html("div", { class: "story" }, maps, next));
}
