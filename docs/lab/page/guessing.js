// The guesses of the small model's draft, and which of them the model accepts. Lesson 30.

"use strict";

moving.stages("guessing", stage => {
    const runWith = moving.runs("30_choosing"), state = moving.state(stage, { guesses: 4, seed: 35 });
    const rows = html("div", { class: "guesses" }), next = html("div", { class: "next" }), note = html("p", { role: "status" });
    const compute = moving.steady(stage, async () => {
        const run = await runWith({ guesses: moving.array([1], [state.guesses], "integer"), seed: moving.array([1], [state.seed], "integer") });
        const vocabulary = attnWords.small_model, values = name => run.step(`guess.${name}`).values, accepted = Number(values("accepted")[0]);
        const number = value => numberText(value, ".2f", "real");
        rows.replaceChildren(...["guess", "draft q", "model p", "p / q", "drawn", ""].map(name => html("small", {}, name)),
            ...[...run.step("drafted").values].flatMap((id, i) => {
                const verdict = i < accepted ? "accepted" : i === accepted ? "rejected" : "taken back";
                return [html(i < accepted ? "b" : "s", {}, vocabulary[id]), ...[values("q")[i], values("p")[i], values("acceptance")[i], run.step("uniform").values[i]].map(value => html("span", {}, number(value))), html("span", {}, verdict)];
            }));
        next.replaceChildren(...moving.wordBars([[accepted === state.guesses ? "all stand; one more word of the model" : "in place of the rejected guess", values("next")]], vocabulary, 4));
        note.textContent = `This call of the model gives ${accepted + 1} ${accepted === 0 ? "word" : "words"}: ${accepted} of ${state.guesses} guesses, and one drawn with the probabilities above. A guess stands where the number drawn is below p / q.`;
    });
    stage.append(
        html("p", { class: "controls" }, moving.knob(state, "guesses", "guesses", { min: 1, max: 8, step: 1 }, compute),
            html("button", { type: "button", onclick: () => { state.seed++; compute(); } }, "draw again")),
        rows, next, note);
});
