// Beam search as a tree of words: greedy decoding takes the likeliest word and can't go back, a beam of two can. Lesson 13.

"use strict";

moving.stages("beams", stage => {
    const state = moving.state(stage, { width: 0, step: 2 }), runOf = moving.follows("13_transformer", () => compute());
    const least = 0.001; // a beginning that is less likely is not drawn

    // The probabilities of the word after each beginning that the run has computed: those of both sentences.
    async function chancesOf(run) {
        const after = new Map();
        for (const sentence of ["greedy", "beam"]) {
            const { shape, values } = run.step(`bike.${sentence}.logits`), ids = [...run.step(`bike.${sentence}.ids`).values];
            const { results } = await lab.ask({ do: "evaluate", given: { logits: moving.array(shape, values) }, formulas: { chances: "softmax(logits)" } });
            ids.forEach((_, i) => after.set(String(ids.slice(0, i)), results.chances.values.slice(i * shape[1], (i + 1) * shape[1])));
        }
        return after;
    }

    // What a beam meets step by step: of each step all continuations that are drawn, the likeliest first, and which are kept.
    function search(after, width, length) {
        let beam = [{ ids: [], probability: 1 }];
        return Array.from({ length }, () => {
            const found = beam.flatMap(({ ids, probability }) => {
                if (!after.has(String(ids))) {
                    throw new Error("the beam goes on with a beginning that this run has no probabilities of");
                }
                return after.get(String(ids)).map((chance, id) => ({ ids: [...ids, id], chance, probability: probability * chance }));
            }).filter(({ probability }) => probability >= least).sort((a, b) => b.probability - a.probability);
            beam = found.slice(0, width);
            return found.map((one, i) => ({ ...one, isKept: i < width }));
        });
    }

    const tree = html("div", { class: "tree" }), note = html("p", { role: "status" });
    const compute = moving.steady(stage, async () => {
        const run = await runOf(), vocabulary = attnWords.translator, length = run.step("bike.beam.ids").shape[0];
        const steps = search(await chancesOf(run), state.width + 1, length).slice(0, state.step + 1);
        const depth = 46, width = 340, place = new Map([["", width / 2]]), marks = [];
        const parentOf = ({ ids }) => place.get(String(ids.slice(0, -1)));
        // From left to right as what they go on with, so that no branches cross.
        steps.forEach((found, step) => [...found].sort((a, b) => parentOf(a) - parentOf(b)).forEach((one, i) => {
            const { ids, chance, probability, isKept } = one;
            const parent = parentOf(one), x = width * (i + 0.5) / found.length, y = depth * (step + 1);
            place.set(String(ids), x);
            marks.push(svg("line", { x1: parent, y1: y - depth + 8, x2: x, y2: y - 14, class: isKept ? "branch" : "branch dropped", style: `--strength: ${chance}` }),
                svg("text", { x, y, "text-anchor": "middle", class: isKept ? "kept" : "dropped", "data-word": vocabulary[ids.at(-1)] }, `${vocabulary[ids.at(-1)]} `,
                    svg("tspan", { class: "number" }, numberText(probability, ".3f", "real"))));
        }));
        const source = [...run.step("bike.source_ids").values].map(id => vocabulary[id]).join(" ");
        tree.replaceChildren(svg("svg", { viewBox: `0 -10 ${width} ${depth * (Math.max(4, steps.length) + 0.5)}`, role: "img", "aria-label": `the sentences so far: ${steps.at(-1).map(({ ids, probability }) => `${ids.map(id => vocabulary[id]).join(" ")} ${probability.toFixed(3)}`).join("; ")}` },
            svg("text", { x: width / 2, y: 8, "text-anchor": "middle" }, source), ...marks));
        const best = steps.at(-1)[0], dropped = steps.at(-1).filter(({ isKept }) => !isKept).length;
        note.textContent = `“${best.ids.map(id => vocabulary[id]).join(" ")}” has the probability ${numberText(best.probability, ".3f", "real")}, the product of its words'. ${
            state.width === 0 ? "Greedy decoding keeps one beginning" : "A beam of two keeps two beginnings"}${dropped > 0 ? `; ${dropped} other${dropped > 1 ? "s are" : " is"} dropped here` : ""}. What is less likely than ${least} is not drawn.`;
        walk.show();
    });
    const walk = moving.steps(state, "step", () => 6, () => compute());
    stage.append(html("p", { class: "controls" }, walk.element, moving.choice(state, "width", ["greedy", "beam of two"], () => compute())), tree, note);
});
