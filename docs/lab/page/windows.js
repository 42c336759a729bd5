// The small model in a window of the reader's choice, with its first words kept or not: its maps and the next word. Lesson 25.

"use strict";

for (const stage of moving.stages("windows")) {
    const lesson = "25_windows_and_sinks", choice = { width: 6, kept: 1 };
    let example = null;
    const maps = html("div", { class: "maps" }), next = html("div", { class: "next" });
    const compute = moving.steady(stage, async () => {
        example ??= new Run(await lab.ask({ do: "run", lesson }));
        const changed = Object.fromEntries(Object.entries(choice).map(([name, value]) => [name, moving.array([1], [value], "integer")]));
        const run = new Run(await lab.ask({ do: "run", lesson, inputs: example.inputs(changed) }));
        const vocabulary = attnWords.small_model, words = [...run.step("ids").values].map(id => vocabulary[id]);
        const heads = [...run.steps.keys()].filter(path => /^with_first\.layers\.\d\.self_attn\.head\.\d\.weights$/.test(path));
        maps.replaceChildren(...heads.map(path => {
            const [, layer, head] = /layers\.(\d)\.self_attn\.head\.(\d)/.exec(path);
            return html("figure", {}, moving.map(words, run.step(path).values, `weights of layer ${layer}, head ${head}`), html("figcaption", {}, `layer ${layer}, head ${head}`));
        }));
        const last = scope => run.step(`${scope}.chances`).values.slice(-vocabulary.length);
        next.replaceChildren(...[["all tokens", "all"], ["the window", "window"], ["and the first kept", "with_first"]].flatMap(([name, scope]) => [
            html("small", {}, name),
            ...moving.likeliest(last(scope), vocabulary, 3).map(({ word, chance }) => html("div", { class: "chance", style: `--share: ${chance}` }, ...moving.said(word, chance))),
        ]));
        stage.dataset.ready = `${choice.width} ${choice.kept}`;
    });
    const slider = (label, name, min, max) => moving.slider(label, { min, max, step: 1, value: choice[name] }, (value, output) => {
        choice[name] = value;
        output.textContent = value;
        compute();
    });
    stage.append(html("p", { class: "controls" }, slider("window", "width", 1, 20), slider("first words kept", "kept", 0, 4)), html("div", { class: "story" }, maps, next));
}
