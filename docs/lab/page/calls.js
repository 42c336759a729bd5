// The small model reads a story in calls of the reader's choice, right or with a mistake: which tokens get another result, and what the
// next word is then. Lesson 28.

"use strict";

moving.stages("calls", stage => {
    const runWith = moving.runs("28_many_calls"), n = 17, ofRing = 7; // the first of the mistakes that a ring shows
    const mistakes = ["none: everything is right", "a call with a cache has no causal mask", "the causal mask of a chunk begins at the first key", "each call's positions begin at 0",
        "positions after the first call are one too large", "all tokens of a later chunk have the position of its first one", "a call replaces what was stored",
        "a chunk overwrites keys of the ring that its first queries still need", "the first tokens, which the window keeps, are overwritten when the ring wraps"];
    const state = moving.state(stage, { first: 6, size: 4, mistake: 0, ring: 0 });
    const line = html("div", { class: "calls" }), next = html("div", { class: "next" }), note = html("p", { role: "status" });

    function ends() {
        const after = Array.from({ length: Math.ceil((n - state.first) / state.size) }, (_, i) => Math.min(n, state.first + (i + 1) * state.size));
        return [state.first, ...after];
    }

    const compute = moving.steady(stage, async () => {
        const whole = numbers => moving.array([numbers.length], numbers, "integer");
        const run = await runWith({ ends: whole(ends()), mistake: whole([state.mistake]) });
        const vocabulary = attnWords.small_model, words = [...run.step("ids").values].map(id => vocabulary[id]);
        const scope = state.ring ? "ring." : "", off = run.step(`${scope}calls.off`).values, calls = ends();
        const differs = i => off[i] > 1e-9, wrong = words.filter((_, i) => differs(i)).length;
        line.replaceChildren(...calls.map((end, call) => html("span", { role: "group", "aria-label": `call ${call + 1}` },
            ...words.slice(calls[call - 1] ?? 0, end).map((word, j) => {
                const i = (calls[call - 1] ?? 0) + j;
                return html("b", { class: differs(i) ? "wrong" : "", title: differs(i) ? `another result: a logit is off by ${numberText(off[i], ".2g", "real")}` : "the same result as in one call" },
                    word, html("small", {}, differs(i) ? "other" : "same"));
            }))));

        const last = path => [...run.step(path).values.slice(-vocabulary.length)];
        const given = { right: last(`${scope}at_once.logits`), found: last(`${scope}calls.logits`) };
        const { results } = await lab.ask({
            do: "evaluate",
            given: Object.fromEntries(Object.entries(given).map(([name, logits]) => [name, moving.array([logits.length], logits)])),
            formulas: { once: "softmax(right)", several: "softmax(found)" },
        });
        next.replaceChildren(...moving.wordBars([["the next word, in one call", results.once.values], ["in these calls", results.several.values]], vocabulary, 3));

        const first = words.findIndex((_, i) => differs(i)), stored = run.step(`${scope}calls.call.${calls.length - 1}.stored`).values;
        const kept = stored.length === n ? "all of them" : `${stored.length} of them, the numbers ${[...stored].join(", ")}`;
        note.textContent = `${n} tokens in ${calls.length} calls; stored after the last are ${kept}. ${wrong === 0
            ? `Each token gets the same result as in one call${state.mistake === 0 ? "." : state.mistake >= ofRing && !state.ring ? ": this mistake needs a ring." : ", in spite of the mistake: these calls do not show it."}`
            : `${wrong} ${wrong === 1 ? "token gets" : "tokens get"} another result; the first is “${words[first]}” in call ${calls.findIndex(end => end > first) + 1}.`}`;
    });

    state.mistake = Math.max(0, Math.min(mistakes.length - 1, Math.round(state.mistake)));
    const ring = moving.choice(state, "ring", ["everything is stored", "a ring of 6 and the first token"], compute);
    const choose = html("select", { onchange: () => {
        state.mistake = Number(choose.value);
        ring.children[state.mistake >= ofRing ? 1 : state.ring].click(); // which computes
    } }, ...mistakes.map((sentence, i) => html("option", { value: i }, i === 0 ? sentence : `${i}. ${sentence}`)));
    choose.value = state.mistake;
    stage.append(
        html("p", { class: "controls" },
            moving.knob(state, "first", "tokens of the first call", { min: 1, max: n, step: 1 }, compute),
            moving.knob(state, "size", "tokens of each later call", { min: 1, max: n - 1, step: 1 }, compute),
            ring, html("label", { class: "mistake" }, "mistake ", choose)),
        html("div", { class: "story" }, line, next), note);
});
