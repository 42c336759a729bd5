// A mixture of experts with a number of experts, a temperature and a missing expert of the reader's choice: which expert each word gets, and the next word. Lesson 26.

"use strict";

for (const stage of moving.stages("experts")) {
    const runWith = moving.runs("26_experts"), choice = { top: 2, temperature: 1, off: -1 };
    const maps = html("div", { class: "maps two" }), next = html("div", { class: "next" });

    // A row per word, a column per expert: the larger an expert's weight is, the stronger its cell.
    function weightsMap(words, { shape, values }, label) {
        const [n, experts] = shape;
        const cells = Array.from(values, (weight, i) => svg("rect", { x: i % experts, y: Math.floor(i / experts), width: 1, height: 1, "fill-opacity": weight.toFixed(3) },
            svg("title", {}, `${words[Math.floor(i / experts)]}: ${weight.toFixed(2)} of expert ${i % experts}`)));
        const names = words.map((word, i) => svg("text", { x: -0.3, y: i + 0.75, "text-anchor": "end", "font-size": 0.8, style: "font-size: 0.8px" }, word));
        const numbers = Array.from({ length: experts }, (_, e) => svg("text", { x: e + 0.5, y: -0.3, "text-anchor": "middle", style: "font-size: 0.8px" }, e));
        return svg("svg", { viewBox: `-3.2 -1.2 ${experts + 3.4} ${n + 1.4}`, role: "img", "aria-label": label }, svg("rect", { x: 0, y: 0, width: experts, height: n, class: "frame" }), ...cells, ...names, ...numbers);
    }

    const compute = moving.steady(stage, async () => {
        const run = await runWith({ top: moving.array([1], [choice.top], "integer"), temperature: moving.array([1], [choice.temperature]), off: moving.array([1], [choice.off], "integer") });
        const vocabulary = attnWords.mixture, words = [...run.step("ids").values].map(id => vocabulary[id]);
        maps.replaceChildren(...[0, 1].map(layer => html("figure", {},
            weightsMap(words, run.step(`changed.layers.${layer}.feed_forward.weights`), `weights of the experts of layer ${layer}`), html("figcaption", {}, `layer ${layer}`))));
        const place = words.indexOf("She");
        const at = scope => run.step(`${scope}.chances`).values.slice(place * vocabulary.length, (place + 1) * vocabulary.length);
        next.replaceChildren(...moving.wordBars([["after “She”, as trained", at("balanced")], ["routed so", at("changed")]], vocabulary, 5));
        stage.dataset.ready = `${choice.top} ${choice.off}`;
    });
    const slider = (label, attributes, name, value, text) => moving.slider(label, attributes, (at, output) => {
        choice[name] = value(at);
        output.textContent = text(choice[name]);
        compute();
    });
    stage.append(
        html("p", { class: "controls" },
            slider("experts of each word", { min: 1, max: 7, step: 1, value: 2 }, "top", at => at, String),
            slider("router's temperature", { min: -3, max: 3, step: 0.25, value: 0 }, "temperature", at => 2 ** at, value => value.toFixed(2)),
            slider("expert switched off", { min: -1, max: 7, step: 1, value: -1 }, "off", at => at, value => value < 0 ? "none" : String(value))),
        html("div", { class: "story" }, maps, next));
}
