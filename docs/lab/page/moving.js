// What pictures that the reader moves have in common.

"use strict";

const moving = {
    // Shows the stages of a name on this page. build(stage) fills one with what computes in it; it is asked again, for an empty stage,
    // when the reader begins again.
    stages(name, build) {
        document.querySelectorAll(`.moving[data-moving="${name}"]`).forEach((box, number) => {
            const id = `${name}${number > 0 ? number + 1 : ""}`; // of a page's second story: story2
            const link = html("button", { type: "button", class: "link", onclick: () => copyLink(link, moving.link(id, moving.states.get(box.querySelector(".stage")))) }, "link to this");
            const again = html("button", { type: "button", class: "again", onclick: () => moving.isMoved(box) && begin() }, "begin again");
            const begin = () => {
                const stage = html("div", { class: "stage" });
                moving.trouble(link, "");
                box.querySelector(".stage").replaceWith(stage);
                box.dataset.asked = ""; // what a link says counts once
                build(stage);
            };
            box.dataset.asked = location.search;
            box.dataset.id = id;
            box.append(html("p", { class: "share" }, again, " ", link));
            box.hidden = false;
            build(box.querySelector(".stage"));
        });
    },

    // What the reader moves in a stage: numbers, lists of numbers and texts. They begin with what is given here, or with what the link
    // says: page.html?windows.width=12&windows.kept=0. A button under the stage makes such a link.
    state(stage, given) {
        const box = stage.parentElement, asked = new URLSearchParams(box.dataset.asked), button = box.querySelector(".link");
        const state = { ...given }, prefix = `${box.dataset.id}.`;
        for (const [key, text] of [...asked].filter(([key]) => key.startsWith(prefix)).map(([key, text]) => [key.slice(prefix.length), text])) {
            const read = { number: Number, string: String, object: list => list.split(" ").map(Number) }[typeof given[key]];
            const value = read?.(text);
            if (value === undefined) {
                moving.trouble(button, `the link names ${quotedText(prefix + key)}, expected ${Object.keys(given).map(known => prefix + known).join(" or ")}`);
            } else if ((typeof value === "number" && text.trim() === "") || [value].flat().some(Number.isNaN) || (Array.isArray(value) && value.length !== given[key].length)) {
                moving.trouble(button, `the link has ${quotedText(text)} for ${prefix + key}, expected ${Array.isArray(value) ? `${given[key].length} numbers` : "a number"}`);
            } else {
                state[key] = value;
                addEventListener("load", () => box.scrollIntoView());
            }
        }
        moving.states.set(stage, state);
        moving.given.set(stage, JSON.stringify(given));
        return state;
    },

    isMoved(box) {
        const stage = box.querySelector(".stage");
        return JSON.stringify(moving.states.get(stage)) !== moving.given.get(stage);
    },

    // The address that shows a stage like this. The reader's own numbers in the page (bar.js) stay in it.
    link(name, state) {
        const asked = new URLSearchParams(Object.entries(state).map(([key, value]) => [`${name}.${key}`, [value].flat().join(" ")]));
        return `${location.href.replace(/[?#].*$/, "")}?${asked}${location.hash.startsWith("#lab=") ? location.hash : ""}`;
    },

    states: new WeakMap(), // by stage
    given: new WeakMap(), // what they begin with, as text

    // Says beside what the reader uses why something can't be; "" says that all is well.
    trouble(input, text) {
        const before = input.nextElementSibling;
        const note = before?.matches(".trouble") ? before : html("span", { class: "trouble", role: "alert" });
        if (note !== before) {
            input.after(note);
        }
        note.textContent = text;
        input.classList.toggle("wrong", text !== "");
    },

    // Computes again whenever asked, one after the other, from when the stage is seen; what was asked for in between counts as
    // asked once. Why something can't be computed stands below the stage's controls. What the stage shows is in its data-shown.
    steady(stage, compute) {
        const seen = new Promise(resolve => new IntersectionObserver((entries, observer) => {
            if (entries.some(entry => entry.isIntersecting)) {
                observer.disconnect();
                resolve();
            }
        }, { rootMargin: "200px" }).observe(stage.parentElement));
        let running = false, again = false;
        return async () => {
            if (!stage.isConnected) {
                return; // the reader began again
            }
            if (running) {
                again = true;
                return;
            }
            running = true;
            do {
                await seen;
                again = false;
                const asked = JSON.stringify(moving.states.get(stage)), controls = stage.querySelector(".controls") ?? stage;
                try {
                    await compute();
                    moving.trouble(controls, "");
                    stage.dataset.shown = asked;
                } catch (error) {
                    moving.trouble(controls, error.message);
                }
                stage.parentElement?.querySelector(".again").setAttribute("aria-disabled", String(!moving.isMoved(stage.parentElement)));
            } while (again && stage.isConnected);
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

    // A slider for a number of the state.
    knob(state, key, label, attributes, compute, say = String) {
        return moving.slider(label, { ...attributes, value: state[key] }, (value, output) => {
            state[key] = value;
            output.textContent = say(value);
            compute();
        });
    },

    // Buttons that go through the steps of a state, from 0 to last(); at an end one of them has nothing to do.
    steps(state, key, last, compute, [back, next] = ["back", "next"]) {
        const move = by => {
            state[key] = Math.max(0, Math.min(last(), state[key] + by));
            compute();
        };
        const buttons = [[back, -1], [next, 1]].map(([name, by]) => html("button", { type: "button", class: name, onclick: () => move(by) }, name));
        state[key] = Math.max(0, Math.min(last(), Math.round(state[key])));
        return {
            element: html("span", { class: "steps" }, ...buttons),
            show() {
                [state[key] === 0, state[key] === last()].forEach((isEnd, i) => buttons[i].setAttribute("aria-disabled", String(isEnd)));
            },
        };
    },

    // Buttons of which one is chosen.
    choice(state, key, names, compute) {
        const buttons = names.map((name, i) => html("button", { type: "button", onclick: () => choose(i) }, name));
        const choose = i => {
            state[key] = Math.max(0, Math.min(names.length - 1, Math.round(i)));
            buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(j === state[key])));
            compute();
        };
        choose(state[key]);
        return html("span", { class: "choice" }, ...buttons);
    },

    // A line to type in. read(text) takes what was typed, or throws what is wrong with it: that stands beside the line, and the
    // text stays in it.
    field(state, key, label, attributes, read, compute) {
        const input = html("input", { type: "text", spellcheck: "false", autocapitalize: "off", ...attributes, value: state[key] });
        const take = () => {
            try {
                read(input.value.trim());
                state[key] = input.value.trim();
                moving.trouble(input, "");
                compute();
            } catch (error) {
                moving.trouble(input, error.message);
            }
        };
        const element = html("label", { class: "typed" }, `${label} `, input);
        input.addEventListener("change", take);
        take();
        return element;
    },

    // Numbers as coloured cells: blue where positive, orange where negative, stronger where larger.
    cells(values, largest, format = ".2f") {
        return Array.from(values, value => html("span", { class: value < 0 ? "cell negative" : "cell", style: `--strength: ${Math.min(1, Math.abs(value) / largest) || 0}` },
            numberText(value, format, "real")));
    },

    // Words, and under each the weight that it gets: the larger, the stronger. A word that can't be seen has no weight.
    weighed(words, weights, isSeen = () => true) {
        return html("div", { class: "weighed" }, ...words.map((word, i) => html("span", { class: isSeen(i) ? "" : "unseen", style: `--strength: ${isSeen(i) ? weights[i] : 0}` },
            word, html("small", {}, isSeen(i) ? numberText(weights[i], ".2f", "real") : "−∞"))));
    },

    // A circle with hands: {angle, length, name, colour}, the angle counterclockwise from the right, in radians.
    dial(label, hands) {
        const end = ({ angle, length }) => [50 + 44 * length * Math.cos(angle), 50 - 44 * length * Math.sin(angle)];
        return svg("svg", { viewBox: "0 0 100 100", role: "img", "aria-label": `${label}: ${hands.map(({ name, angle }) => `${name} at ${angle.toFixed(2)} radians`).join(", ")}` },
            svg("circle", { cx: 50, cy: 50, r: 44, class: "axis" }),
            ...hands.map(hand => svg("line", { x1: 50, y1: 50, x2: end(hand)[0], y2: end(hand)[1], class: "hand", style: `stroke: var(${hand.colour})` })),
            svg("circle", { cx: 50, cy: 50, r: 2 }));
    },

    array(shape, values, type = "real") {
        return { shape, values: [...values], type };
    },

    // What the generator wrote down for a stage: {path: {shape, values}}.
    recorded(stage) {
        return JSON.parse(stage.parentElement.querySelector("script[type='application/json']").textContent);
    },

    // A head's weights (n, n) as a square: the more a word puts on another, the stronger its cell. Names stand beside it where there
    // is room for them.
    map(words, values, label, names = []) {
        const n = words.length, cells = [], room = names.length > 0 ? 2.4 : 0.5;
        for (let i = 0; i < n; i++) {
            for (let j = 0; j <= i; j++) {
                cells.push(svg("rect", { x: j, y: i, width: 1, height: 1, "fill-opacity": values[i * n + j].toFixed(3) },
                    svg("title", {}, `${words[i]} puts ${values[i * n + j].toFixed(2)} on ${words[j]}`)));
            }
        }
        const written = names.flatMap((name, i) => [svg("text", { x: -0.2, y: i + 0.7, "text-anchor": "end", style: "font-size: 0.7px" }, name),
            svg("text", { transform: `translate(${i + 0.7} -0.2) rotate(-60)`, style: "font-size: 0.7px" }, name)]);
        return svg("svg", { viewBox: `${-room} ${-room} ${n + room + 0.5} ${n + room + 0.5}`, role: "img", "aria-label": label },
            svg("rect", { x: 0, y: 0, width: n, height: n, class: "frame" }), ...cells, ...written);
    },

    // Normal numbers that a seed draws, so that a link can draw them again: mulberry32's uniform ones, by Box and Muller (1958).
    normals(seed, count) {
        let at = seed;
        const uniform = () => {
            at = (at + 0x6d2b79f5) | 0;
            let mixed = Math.imul(at ^ (at >>> 15), at | 1);
            mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
            return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
        };
        return Array.from({ length: count }, () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform()));
    },

    // The lesson's run that its page shows: the example's, or, as soon as there is one, that of the reader's own numbers.
    follows(lesson, compute) {
        let run = null;
        if (document.querySelector(".lab")?.dataset.lesson === lesson) {
            document.addEventListener("attn-run", ({ detail }) => {
                run = detail;
                compute();
            });
        }
        return async () => run ??= new Run(await lab.ask({ do: "run", lesson }));
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
