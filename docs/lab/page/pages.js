// A pool of blocks that three requests fill: whose each block is, what is left over in it, and what a request reads. Lesson 29.

"use strict";

moving.stages("pages", stage => {
    const runWith = moving.runs("29_many_sequences"), rows = 40, names = ["Lily’s", "Tom’s", "Ben’s"], kinds = "LTBltb+"; // writes, leaves, goes on
    const state = moving.state(stage, { beyond: 1, reader: 0, size: 4, events: `${"T".repeat(16)}tLLLLL+BLLLL${"T".repeat(17)}` });
    const pool = html("div", { class: "pool" }), read = html("div", { class: "heads" }), note = html("p", { role: "status" });
    let fitting = null; // what was shown last

    const compute = moving.steady(stage, async () => {
        const events = [...state.events].map(event => kinds.indexOf(event)), blocks = Math.floor(rows / state.size);
        if (events.length === 0 || events.includes(-1)) {
            throw new Error(`events are ${quotedText(state.events)}, expected letters of ${kinds}: a request writes, leaves, or Ben’s goes on from Lily’s (+)`);
        }
        let run;
        try {
            run = await runWith({ events: moving.array([events.length], events, "integer"), size: moving.array([1], [state.size], "integer"), blocks: moving.array([1], [blocks], "integer") });
        } catch (error) {
            state.events = fitting ?? state.events;
            throw new Error(error.message.replace(/(request|sequence) (\d)/, (_, word, which) => `${names[which]} request`));
        }
        fitting = state.events;

        const words = [...run.step("ids").values].map(id => attnWords.small_model[id]), written = run.step("pages.written").values;
        const word = slot => words[written[slot]] ?? "";
        const tables = names.map((_, request) => [...(run.steps.has(`pages.request.${request}.table`) ? run.step(`pages.request.${request}.table`).values : [])]);
        const tokens = run.step("pages.tokens").values;
        const whose = slot => names.map((_, request) => request).filter(request => {
            const place = tables[request].indexOf(Math.floor(slot / state.size));
            return place >= 0 && place * state.size + (slot % state.size) < tokens[request];
        });
        pool.replaceChildren(...Array.from({ length: blocks }, (_, block) => {
            const owners = names.filter((_, request) => tables[request].includes(block));
            const cells = Array.from({ length: state.size }, (_, row) => {
                const slot = block * state.size + row, of = whose(slot);
                const said = of.length > 0 ? `${of.map(request => names[request]).join(" and ")} word` : word(slot) ? "left over" : "empty";
                return html("span", { class: of.length > 0 ? `word of-${of.join("")}` : word(slot) ? "word stale" : "word", title: `slot ${slot}: ${said}` }, word(slot) || "·");
            });
            return html("div", { class: owners.length > 1 ? "block shared" : "block" }, html("small", {}, `${block}: ${owners.join(", ") || "free"}`), ...cells);
        }));

        const reader = names[state.reader], scope = `pages.request.${state.reader}`, table = tables[state.reader];
        if (table.length === 0) {
            read.replaceChildren();
            note.textContent = `${reader} request has no word.`;
            return;
        }
        const path = state.beyond ? `${scope}.beyond` : scope, slots = run.step(`${path}.slots`).values, weights = run.step(`${path}.weights`).values;
        const shown = html("div", {}, moving.weighed([...slots].map(slot => word(slot) || "(empty)"), weights));
        [...shown.querySelectorAll(".weighed > span")].forEach((cell, i) => cell.classList.toggle("stale", i >= tokens[state.reader]));
        read.replaceChildren(html("p", {}, `What the last word of ${reader} request reads, and the weight on each:`), shown);
        const foreign = weights.slice(tokens[state.reader]).reduce((sum, weight) => sum + weight, 0);
        const isUsed = slot => tables.some(of => of.includes(Math.floor(slot / state.size)));
        const rest = Array.from(written.keys()).filter(slot => isUsed(slot) && whose(slot).length === 0).length;
        note.textContent = `${reader} request has the blocks ${table.join(", ")}. ${run.step("pages.used").values[0]} of ${blocks} blocks are in use, ${run.step("pages.shared").values[0]} saved by sharing; ${rest} rows are left over in last blocks. ${
            state.beyond ? `With the rest of its last block, ${numberText(foreign, ".2f", "real")} of the weight is on rows that are not its own, and the head’s context is off by up to ${
                numberText(run.step(`${scope}.beyond.off`).values[0], ".2f", "real")}.` : "It reads its own words, and the context is what it would be alone."}`;
    });

    const add = event => { state.events += event; compute(); };
    const button = (text, onclick) => html("button", { type: "button", onclick }, text);
    stage.append(
        html("p", { class: "controls" },
            ...names.map((name, request) => html("span", { class: "choice" }, button(`${name} writes a word`, () => add("LTB"[request])), button("leaves", () => add("ltb"[request])))),
            html("span", { class: "choice" }, button("Ben’s goes on from Lily’s", () => add("+")),
                button("take back", () => { state.events = state.events.slice(0, -1) || "L"; compute(); }), button("one word only", () => { state.events = "L"; compute(); })),
            moving.knob(state, "size", "words in a block", { min: 1, max: 10, step: 1 }, compute)),
        pool,
        html("p", { class: "controls" }, moving.choice(state, "reader", names.map(name => `${name} reads`), compute),
            moving.choice(state, "beyond", ["its own words", "and the rest of its last block"], compute)),
        read, note);
});
