// A sentence that the reader types, translated: for each word that is written, the words before it that it can see, and the words of
// the source that it takes from. Lessons 12 and 13.

"use strict";

moving.stages("translation", stage => {
    const state = moving.state(stage, { source: "Lily had a red ball .", word: 2, layer: 1, head: 0 });
    const runWith = moving.runs("13_transformer"), vocabulary = attnWords.translator;
    let ids = [];
    const read = text => {
        const words = text.split(/\s+/).filter(Boolean), unknown = words.find(word => !vocabulary.includes(word));
        if (unknown !== undefined) {
            throw new Error(`the translator has no word ${quotedText(unknown)}; it knows ${vocabulary.filter(word => !word.startsWith("<")).join(" ")}`);
        }
        if (words.length === 0 || words.length > 12) {
            throw new Error(`expected 1 to 12 words, found ${words.length}`);
        }
        ids = words.map(word => vocabulary.indexOf(word));
    };

    let asked = "", run = null;
    const written = html("p", { class: "words" }), picture = html("div", { class: "heads", "aria-live": "polite" });
    const compute = moving.steady(stage, async () => {
        if (ids.length === 0) {
            return; // what the link has is refused beside the line
        }
        if (asked !== String(ids)) {
            asked = String(ids);
            run = await runWith({ source_ids: moving.array([ids.length], ids, "integer") });
        }
        const words = path => Array.from(run.step(path).values, id => vocabulary[id]);
        const [source, said, before] = [words("source_ids"), words("said"), words("target_ids")];
        state.word = Math.max(0, Math.min(said.length - 1, Math.round(state.word)));
        written.replaceChildren("it writes ", ...said.map((word, i) => html("button", { type: "button", "aria-pressed": String(i === state.word), onclick: () => { state.word = i; compute(); } }, word)));
        const row = (block, width) => run.step(`decoder.layers.${state.layer}.${block}.head.${state.head}.weights`).values.subarray(state.word * width, (state.word + 1) * width);
        const seen = row("self_attn", said.length), taken = row("cross_attn", source.length), most = taken.indexOf(Math.max(...taken));
        picture.replaceChildren(
            html("div", { "data-block": "self_attn" }, html("small", {}, "what it has written: the word itself and all later ones are hidden by the causal mask"), moving.weighed(before, seen, j => j <= state.word)),
            html("div", { "data-block": "cross_attn" }, html("small", {}, "the source, all of it"), moving.weighed(source, taken)),
            html("p", {}, `To write “${said[state.word]}” after “${before[state.word]}”, this head puts ${numberText(taken[most], ".2f", "real")} of its weight on “${source[most]}”.`));
    });
    stage.append(
        moving.field(state, "source", "translate", { size: 24 }, read, () => compute()),
        html("p", { class: "controls" }, moving.choice(state, "layer", ["layer 0", "layer 1"], () => compute()), moving.choice(state, "head", ["head 0", "head 1"], () => compute())),
        written, picture);
});
