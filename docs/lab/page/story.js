// The small model, live: words are chosen or typed, heads switched off; its maps and the next word follow.

"use strict";

for (const stage of moving.stages("story")) {
    let words = ["Lily", "had", "a", "red", "ball", "."], vocabulary = [], temperature = 1, asked = 0;
    const off = new Set(); // paths of contexts

    const line = html("p", { class: "words", "aria-live": "polite" });
    const typed = html("input", { type: "text", list: "attn-vocabulary", size: 10, "aria-label": "the next word", placeholder: "a word", autocapitalize: "off" });
    const known = html("datalist", { id: "attn-vocabulary" });
    const note = html("p", { role: "status", class: "lab-trouble" });
    const maps = html("div", { class: "maps" }), next = html("div", { class: "next" });
    const add = word => {
        if (!vocabulary.includes(word)) {
            note.textContent = `the small model has no word ${quotedText(word)}; it knows: ${vocabulary.join(" ")}`;
        } else if (words.length >= 24) {
            note.textContent = "that is enough for a picture: take words away, or begin again";
        } else {
            words.push(word);
            compute();
        }
    };
    typed.addEventListener("change", () => {
        if (typed.value.trim()) {
            add(typed.value.trim());
            typed.value = "";
        }
    });

    const compute = moving.steady(stage, async () => {
        note.textContent = "";
        try {
            const answer = await lab.ask({ do: "story", words: words.join(" "), ablate: [...off] });
            const run = new Run(answer);
            vocabulary = answer.vocabulary;
            if (known.children.length === 0) {
                known.append(...vocabulary.map(word => html("option", { value: word })));
            }
            showWords();
            showMaps(run);
            await showNext(run);
            stage.dataset.ready = String(++asked);
        } catch (error) {
            note.textContent = error.message;
        }
    });

    function showWords() {
        line.replaceChildren(...words.map((word, i) => html("button", { type: "button", title: "begin again from here", onclick: () => { words = words.slice(0, Math.max(1, i + 1)); compute(); } }, word)), typed);
    }

    function showMaps(run) {
        const heads = [...run.steps.keys()].filter(path => /^layers\.\d\.self_attn\.head\.\d\.weights$/.test(path));
        maps.replaceChildren(...heads.map(path => {
            const context = path.replace(/weights$/, "context");
            const [, layer, head] = /layers\.(\d)\.self_attn\.head\.(\d)/.exec(path);
            const box = html("input", { type: "checkbox", checked: !off.has(context) });
            box.addEventListener("change", () => {
                off[box.checked ? "delete" : "add"](context);
                compute();
            });
            const map = moving.map(words, run.step(path).values, `weights of layer ${layer}, head ${head}`);
            return html("figure", { class: off.has(context) ? "off" : "" }, map, html("figcaption", {}, html("label", {}, box, ` layer ${layer}, head ${head}`)));
        }));
    }

    async function showNext(run) {
        const logits = run.step("logits");
        const last = [...logits.values.slice(-vocabulary.length)];
        const { results } = await lab.ask({ do: "evaluate", given: { logits: moving.array([last.length], last), t: moving.array([], [temperature]) }, formulas: { chances: "softmax(logits / t)" } });
        next.replaceChildren(...moving.likeliest(results.chances.values, vocabulary, 8).map(({ word, chance }) =>
            html("button", { type: "button", class: "chance", style: `--share: ${chance}`, title: `go on with ${word}`, onclick: () => add(word) }, ...moving.said(word, chance))));
    }

    stage.append(line,
        html("p", { class: "controls" },
            moving.slider("temperature", { min: -1, max: 1, step: 0.05, value: 0 }, (value, output) => {
                temperature = 4 ** value;
                output.textContent = temperature.toFixed(2);
                compute();
            }),
            html("button", { type: "button", onclick: () => { words = ["Lily", "had", "a", "red", "ball", "."]; off.clear(); compute(); } }, "begin again")),
        html("div", { class: "story" }, maps, next), note);
}
