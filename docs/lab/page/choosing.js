// The small model's next word under a temperature and three cuts: what none of them leaves is grey. Lesson 30.

"use strict";

moving.stages("choosing", stage => {
    const runWith = moving.runs("30_choosing"), count = 14, most = 40;
    const vocabulary = () => attnWords.small_model;
    const state = moving.state(stage, { words: "Lily had a red ball . She", temperature: 1, top_k: 66, top_p: 0.9, min_p: 0 });
    const bars = html("div", { class: "next" }), note = html("p", { role: "status" });

    function read(text) {
        const words = text.split(/\s+/).filter(word => word !== ""), other = words.find(word => !vocabulary().includes(word));
        if (words.length === 0 || words.length > most) {
            throw new Error(`expected 1 to ${most} words, found ${words.length}`);
        }
        if (other !== undefined) {
            throw new Error(`the model has no word ${quotedText(other)}; a full stop stands for itself, as in “ball .”`);
        }
        return words.map(word => vocabulary().indexOf(word));
    }

    const compute = moving.steady(stage, async () => {
        const ids = read(state.words), one = (name, type) => moving.array([1], [state[name]], type);
        const run = await runWith({ ids: moving.array([ids.length], ids, "integer"), temperature: moving.array([1], [2 ** state.temperature]), top_k: one("top_k", "integer"), top_p: one("top_p"), min_p: one("min_p") });
        const values = path => run.step(path)?.values, chances = values("chances"), left = values("together.probabilities");
        const cuts = [["top-k", values("together.among_k")], ["top-p", values("together.in_nucleus")], ["min-p", values("together.likely")]];
        const order = [...chances.keys()].sort((a, b) => chances[b] - chances[a] || a - b);
        bars.replaceChildren(...order.slice(0, count).map(id => {
            const by = cuts.filter(([, kept]) => kept && !kept[id]).map(([name]) => name), word = vocabulary()[id];
            return html("button", { type: "button", class: by.length > 0 ? "chance cut" : "chance", style: `--share: ${by.length > 0 ? chances[id] : left[id]}`, title: by.length > 0 ? `cut by ${by.join(" and ")}` : `go on with ${word}`,
                onclick: () => goOn(word) }, html("span", {}, word), html("span", {}, by.length > 0 ? `${numberText(chances[id], ".3f", "real")}, cut by ${by.join(", ")}` : numberText(left[id], ".3f", "real")));
        }));
        const kept = order.filter(id => left[id] > 0), gone = order.filter(id => !(left[id] > 0)).reduce((sum, id) => sum + chances[id], 0);
        note.textContent = kept.length === order.length ? `No word is cut: all ${order.length} can come.` : `${kept.length === 1 ? "One word is" : `${kept.length} words are`} left of ${order.length}; the others had ${
            numberText(gone, ".3f", "real")} of the probability at this temperature.`;
    });
    const field = moving.field(state, "words", "the words so far", { size: 40 }, read, compute);
    function goOn(word) {
        const input = field.querySelector("input");
        input.value = `${state.words} ${word}`;
        input.dispatchEvent(new Event("change"));
    }
    stage.append(field,
        html("p", { class: "controls" },
            moving.knob(state, "temperature", "temperature", { min: -2, max: 3, step: 0.25 }, compute, value => (2 ** value).toFixed(2)),
            moving.knob(state, "top_k", "top-k", { min: 1, max: 66, step: 1 }, compute, value => value === 66 ? "all" : String(value)),
            moving.knob(state, "top_p", "top-p", { min: 0.05, max: 1, step: 0.05 }, compute, value => value === 1 ? "all" : value.toFixed(2)),
            moving.knob(state, "min_p", "min-p", { min: 0, max: 1, step: 0.05 }, compute, value => value === 0 ? "all" : value.toFixed(2))),
        bars, note);
});
