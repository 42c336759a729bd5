// The small model, live: each word can be replaced, heads are switched off, and the next word follows.
//   {{moving story | …}}                                  all maps, a box for each head
//   {{moving story sentence=Lily_had_a head=0.3 row=2 | …}}  one head as a large map, with a button; the row is the one that is told;
//                                                         instead=ID: a picture's text; it stands there where nothing computes
//   {{moving story sentence=Lily_had_a other=Tom | …}}       no map; a button that exchanges the first word

"use strict";

moving.stages("story", stage => {
    const { sentence: given = "Lily_had_a_red_ball_.", head, row, other, instead } = stage.parentElement.dataset;
    const example = given.split("_"), most = 24, count = head || other ? 4 : 5;
    const still = document.getElementById(instead)?.closest("figure"); // what stands there where nothing computes
    const contextOf = name => `layers.${name.replace(".", ".self_attn.head.")}.context`;
    const state = moving.state(stage, { words: example.join(" "), off: "", temperature: 0, told: Number(row ?? 0) }); // off: heads, as 0.3 for layer 0, head 3
    const nameOf = name => `head ${name.split(".")[1]} of layer ${name.split(".")[0]}`;
    let vocabulary = [];
    const wordsOf = text => text.split(" ").filter(word => word !== "");
    const heads = () => wordsOf(state.off);
    const toggled = name => (heads().includes(name) ? heads().filter(one => one !== name) : [...heads(), name]).join(" ");

    const line = html("p", { class: "words" }, ...example.map(word => html("span", {}, `${word} `)));
    const maps = html("div", { class: head ? "large-map" : "maps" }), sentence = html("p", { class: "told" });
    const next = html("div", { class: "next" }), verdict = html("p", { class: "verdict", role: "status" });

    // ------------------------------------------------------------------------------------------ the words

    function choice(label, value, more, choose) {
        const options = [...more, ...vocabulary.map(word => [word, word])];
        const select = html("select", { "aria-label": label, onchange: () => choose(select.value) }, ...options.map(([option, text]) => html("option", { value: option }, text)));
        select.value = value;
        select.style.width = `${select.selectedOptions[0].text.length + 1.5}ch`;
        return select;
    }

    function change(to) {
        moving.trouble(line, to.length > most ? `${most} words are enough for a picture: take some away, or begin again` : "");
        if (to.length <= most) {
            state.words = to.join(" ");
            compute();
        }
    }

    function showWords() {
        const focused = [...line.children].indexOf(document.activeElement), words = wordsOf(state.words);
        line.replaceChildren(
            ...words.map((word, i) => choice(`word ${i + 1}`, word, words.length > 1 ? [["", "(no word)"]] : [], to => change(words.toSpliced(i, 1, ...to ? [to] : [])))),
            choice("one word more", "", [["", "+ word"]], to => change([...words, to])));
        line.children[Math.min(focused, words.length)]?.focus();
    }

    // ------------------------------------------------------------------------------------------ the run

    const ask = ablate => lab.ask({ do: "story", words: state.words, ablate: ablate.map(contextOf) });

    async function chances(run) {
        const logits = run.step("logits");
        const last = [...logits.values.slice(-vocabulary.length)];
        const { results } = await lab.ask({ do: "evaluate", given: { logits: moving.array([last.length], last), t: moving.array([], [4 ** state.temperature]) }, formulas: { chances: "softmax(logits / t)" } });
        return moving.likeliest(results.chances.values, vocabulary, count);
    }

    const compute = moving.steady(stage, async () => {
        try {
            const run = new Run(await ask(heads())), words = wordsOf(state.words);
            vocabulary = run.answer.vocabulary;
            const likeliest = await chances(run);
            const whole = heads().length > 0 ? (await chances(new Run(await ask([]))))[0] : likeliest[0];
            showWords();
            if (!other) {
                (head ? showHead : showHeads)(run);
            }
            next.replaceChildren(...likeliest.map(({ word, chance }) =>
                html("button", { type: "button", class: "chance", style: `--share: ${chance}`, title: `go on with ${word}`, onclick: () => change([...words, word]) }, ...moving.said(word, chance))));
            verdict.replaceChildren("The next word: ", html("b", {}, likeliest[0].word), whole.word === likeliest[0].word ? "" : `, no longer ${whole.word}`);
            verdict.classList.toggle("flipped", whole.word !== likeliest[0].word);
            exchange.textContent = `Put ${words[0] === other ? example[0] : other} in ${words[0]}'s place`;
        } catch (error) {
            if (still) {
                still.hidden = false;
            }
            throw error;
        }
    });

    // ------------------------------------------------------------------------------------------ maps

    function showHeads(run) {
        const paths = [...run.steps.keys()].filter(path => /^layers\.\d\.self_attn\.head\.\d\.weights$/.test(path));
        maps.replaceChildren(...paths.map(path => {
            const [, layer, number] = /layers\.(\d)\.self_attn\.head\.(\d)/.exec(path), name = `${layer}.${number}`;
            const box = html("input", { type: "checkbox", checked: !heads().includes(name) });
            box.addEventListener("change", () => {
                state.off = toggled(name);
                compute();
            });
            const map = moving.map(wordsOf(state.words), run.step(path).values, `weights of layer ${layer}, head ${number}`);
            return html("figure", { class: box.checked ? "" : "off" }, map, html("figcaption", {}, html("label", {}, box, ` layer ${layer}, head ${number}`)));
        }));
    }

    // A head's weights as a map with the words beside its rows and above its columns; what one row says stands below.
    function showHead(run) {
        const words = wordsOf(state.words), weights = run.step(contextOf(head).replace(/context$/, "weights")).values, n = words.length, isOff = heads().includes(head);
        const told = state.told = Math.max(0, Math.min(n - 1, Math.round(state.told)));
        const tell = i => {
            state.told = i;
            showHead(run);
        };
        const cell = 26, letter = 8.6, longest = Math.max(...words.map(word => word.length)) * letter + 8;
        const text = (word, attributes) => svg("text", attributes, word);
        const rows = words.map((word, i) => svg("g", { class: i === told ? "row told" : "row", onclick: () => tell(i) },
            svg("rect", { x: -longest, y: i * cell, width: longest + (i + 1) * cell, height: cell, class: "room" }),
            text(word, { x: -6, y: i * cell + cell * 0.7, "text-anchor": "end" }),
            ...words.slice(0, i + 1).map((_, j) => svg("rect", { x: j * cell + 1, y: i * cell + 1, width: cell - 2, height: cell - 2, rx: 3, class: "cell", "fill-opacity": (0.04 + 0.96 * weights[i * n + j]).toFixed(3) },
                svg("title", {}, `${word} puts ${weights[i * n + j].toFixed(3)} on ${words[j]}`)))));
        const columns = words.map((word, j) => text(word, { transform: `translate(${j * cell + cell * 0.7} -6) rotate(-60)` }));
        maps.replaceChildren(svg("svg", { viewBox: `${-longest} ${-longest} ${longest + n * cell + longest / 2} ${longest + n * cell + 2}`, role: "img", style: `min-width: ${n * 16}px`,
            "aria-label": `a map of ${n} rows and columns: row by row, what weight a word puts on each word before it and on itself` }, ...columns, ...rows));
        maps.classList.toggle("off", isOff);
        const weightOf = j => weights[told * n + j];
        const chosen = html("select", { "aria-label": "the word whose row is told", onchange: () => { tell(Number(chosen.value)); sentence.querySelector("select").focus(); } },
            ...words.map((word, i) => html("option", { value: i }, word)));
        chosen.value = told;
        const best = words.map((_, j) => j).slice(0, told + 1).sort((a, b) => weightOf(b) - weightOf(a))[0];
        sentence.replaceChildren("The row of ", chosen, ` puts ${weightOf(best).toFixed(3)} of its weight on `, html("b", {}, words[best]), best === told ? ", itself." : best === told - 1 ? ", the word before it." : ".",
            isOff ? " The head is off: its results are zeros." : "");
        toggle.textContent = `Switch ${nameOf(head)} ${isOff ? "on" : "off"}`;
    }

    // ------------------------------------------------------------------------------------------ what is pressed

    const toggle = html("button", { type: "button", class: "large", onclick: () => {
        state.off = toggled(head);
        compute();
    } }, head ? `Switch ${nameOf(head)} off` : "");
    const exchange = html("button", { type: "button", class: "large", onclick: () => {
        const [first, ...rest] = wordsOf(state.words);
        change([first === other ? example[0] : other, ...rest]);
    } }, `Put ${other} in ${example[0]}'s place`);

    if (still) {
        still.hidden = true;
    }
    if (head) {
        stage.append(line, html("div", { class: "one-head" }, html("div", {}, html("p", { class: "of-head" }, `The weights of ${nameOf(head)}`), maps, sentence), html("div", { class: "outcome" }, toggle, verdict, next)));
    } else if (other) {
        stage.append(line, exchange, verdict, next);
    } else {
        const slider = moving.knob(state, "temperature", "temperature", { min: -1, max: 1, step: 0.05 }, () => compute(), value => (4 ** value).toFixed(2));
        stage.append(line, html("p", { class: "controls" }, slider), html("div", { class: "story of-heads" }, maps, html("div", {}, verdict, next)));
    }
    compute();
});
