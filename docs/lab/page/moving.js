// What pictures that the reader moves have in common.

"use strict";

const moving = {
    // The stages of a name on this page, shown from now on, and what computes in them.
    stages(name) {
        return [...document.querySelectorAll(`.moving[data-moving="${name}"]`)].map(box => {
            box.hidden = false;
            return box.querySelector(".stage");
        });
    },

    // Computes again whenever asked, one after the other, from when the stage is seen; what was asked for in between counts as
    // asked once.
    steady(stage, compute) {
        const seen = new Promise(resolve => new IntersectionObserver((entries, observer) => {
            if (entries.some(entry => entry.isIntersecting)) {
                observer.disconnect();
                resolve();
            }
        }, { rootMargin: "200px" }).observe(stage.parentElement));
        let running = false, again = false;
        return async () => {
            if (running) {
                again = true;
                return;
            }
            running = true;
            do {
                await seen;
                again = false;
                await compute();
            } while (again);
            running = false;
        };
    },

    slider(label, attributes, changed) {
        const output = html("output");
        const input = html("input", { type: "range", ...attributes });
        input.addEventListener("input", () => changed(Number(input.value), output));
        changed(Number(input.value), output);
        return html("label", {}, `${label} `, input, " ", output);
    },

    array(shape, values, type = "real") {
        return { shape, values: [...values], type };
    },

    // A head's weights (n, n) as a square: the more a word puts on another, the stronger its cell.
    map(words, values, label) {
        const n = words.length, cells = [];
        for (let i = 0; i < n; i++) {
            for (let j = 0; j <= i; j++) {
                cells.push(svg("rect", { x: j, y: i, width: 1, height: 1, "fill-opacity": values[i * n + j].toFixed(3) },
                    svg("title", {}, `${words[i]} puts ${values[i * n + j].toFixed(2)} on ${words[j]}`)));
            }
        }
        return svg("svg", { viewBox: `-0.5 -0.5 ${n + 1} ${n + 1}`, role: "img", "aria-label": label },
            svg("rect", { x: 0, y: 0, width: n, height: n, class: "frame" }), ...cells);
    },

    // A normal number, by Box and Muller (1958).
    normal() {
        return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
    },

    // Runs a lesson with some of its inputs changed.
    runs(lesson) {
        let example = null;
        return async changed => {
            example ??= new Run(await lab.ask({ do: "run", lesson }));
            return new Run(await lab.ask({ do: "run", lesson, inputs: example.inputs(changed) }));
        };
    },

    // Under each name the likeliest words, as bars.
    wordBars(groups, vocabulary, count) {
        return groups.flatMap(([name, chances]) => [
            html("small", {}, name),
            ...moving.likeliest(chances, vocabulary, count).map(({ word, chance }) => html("div", { class: "chance", style: `--share: ${chance}` }, ...moving.said(word, chance))),
        ]);
    },

    // The words of the largest probabilities, each with its own.
    likeliest(chances, vocabulary, count) {
        return [...chances].map((chance, id) => ({ word: vocabulary[id], chance })).sort((a, b) => b.chance - a.chance).slice(0, count);
    },

    // What a bar of one says.
    said(word, chance) {
        return [html("span", {}, word), html("span", {}, numberText(chance, ".3f", "real"))];
    },
};
