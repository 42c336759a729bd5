// A mixture of experts with a number of experts, a temperature and a missing expert of the reader's choice: which experts each word
// gets, and what that does to the words that the model expects. Lesson 26.

"use strict";

moving.stages("experts", stage => {
    const runWith = moving.runs("26_experts"), state = moving.state(stage, { off: 2, top: 2, temperature: 0, place: 6 });
    const maps = html("div", { class: "maps two" }), next = html("div", { class: "next" }), note = html("p", { role: "status" });

    // A row per word, a column per expert: the larger an expert's weight is, the stronger its cell.
    function weightsMap(words, { shape, values }, label) {
        const [n, experts] = shape;
        const cells = Array.from(values, (weight, i) => svg("rect", { x: i % experts, y: Math.floor(i / experts), width: 1, height: 1, "fill-opacity": weight.toFixed(3) },
            svg("title", {}, `${words[Math.floor(i / experts)]}: ${weight.toFixed(2)} of expert ${i % experts}`)));
        const names = words.map((word, i) => svg("text", { x: -0.3, y: i + 0.75, "text-anchor": "end", style: "font-size: 0.8px", class: i === state.place ? "chosen" : "" }, word));
        const numbers = Array.from({ length: experts }, (_, e) => svg("text", { x: e + 0.5, y: -0.3, "text-anchor": "middle", style: "font-size: 0.8px", class: e === state.off ? "missing" : "" }, e));
        return svg("svg", { viewBox: `-3.2 -1.2 ${experts + 3.4} ${n + 1.4}`, role: "img", "aria-label": label }, svg("rect", { x: 0, y: 0, width: experts, height: n, class: "frame" }), ...cells, ...names, ...numbers);
    }

    const line = html("p", { class: "words" });
    const compute = moving.steady(stage, async () => {
        const run = await runWith({ top: moving.array([1], [state.top], "integer"), temperature: moving.array([1], [2 ** state.temperature]), off: moving.array([1], [state.off], "integer") });
        const vocabulary = attnWords.mixture, ids = [...run.step("ids").values], words = ids.map(id => vocabulary[id]), n = words.length;
        const place = Math.max(0, Math.min(n - 1, Math.round(state.place)));
        line.replaceChildren("the word after ", ...words.map((word, i) => html("button", { type: "button", "aria-pressed": String(i === place), onclick: () => { state.place = i; compute(); } }, word)));
        maps.replaceChildren(...[0, 1].map(layer => html("figure", {},
            weightsMap(words, run.step(`changed.layers.${layer}.feed_forward.weights`), `weights of the experts of layer ${layer}`), html("figcaption", {}, `layer ${layer}`))));
        const at = (scope, i) => run.step(`${scope}.chances`).values.subarray(i * vocabulary.length, (i + 1) * vocabulary.length);
        next.replaceChildren(...moving.wordBars([[`after “${words[place]}”, as trained`, at("balanced", place)], ["routed so", at("changed", place)]], vocabulary, 5));

        const followed = [...ids.keys()].slice(0, -1); // places whose next word the story has
        const right = scope => numberText(followed.reduce((sum, i) => sum + at(scope, i)[ids[i + 1]], 0) / followed.length, ".3f", "real");
        const best = (scope, i) => at(scope, i).indexOf(Math.max(...at(scope, i)));
        const others = [...ids.keys()].filter(i => best("balanced", i) !== best("changed", i)).map(i => `“${words[i]}”`);
        note.textContent = `The words of the story get a probability of ${right("balanced")} on average as trained, and of ${right("changed")} routed so; ${
            others.length === 0 ? "nowhere is another word the likeliest" : `another word is the likeliest after ${others.join(", ")}`}.`;
    });
    stage.append(
        html("p", { class: "controls" },
            moving.knob(state, "off", "expert switched off", { min: -1, max: 7, step: 1 }, compute, value => value < 0 ? "none" : String(value)),
            moving.knob(state, "top", "experts of each word", { min: 1, max: 7, step: 1 }, compute),
            moving.knob(state, "temperature", "router's temperature", { min: -3, max: 3, step: 0.25 }, compute, value => (2 ** value).toFixed(2))),
        line, html("div", { class: "story" }, maps, next), note);
});
