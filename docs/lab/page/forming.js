// A head forms while the small model is trained: its map at a step of the training, and the loss until then. The numbers are those that
// the lesson's training wrote down when the site was made. Lesson 15.

"use strict";

moving.stages("forming", stage => {
    const recorded = moving.recorded(stage), words = ["Lily", "had", "a", "red", "ball", ".", "She"], stop = words.indexOf(".");
    const steps = Object.keys(recorded).map(path => /^maps\.(\d+)\./.exec(path)?.[1]).filter(Boolean).map(Number).sort((a, b) => a - b);
    const mapAt = step => Object.entries(recorded).find(([path]) => path.startsWith(`maps.${step}.`))[1].values;
    const losses = recorded.losses.values, curve = recorded.curve.values, width = 320, height = 150, largest = 5;
    const state = moving.state(stage, { at: 0 });
    // Steps grow by their root: most happens early.
    const x = step => width * Math.sqrt(step / losses.length), y = loss => height * (1 - Math.min(loss, largest) / largest);
    const line = points => points.map(([step, loss]) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`).join(" ");
    const marker = svg("line", { y1: 0, y2: height, class: "arm" }), ticks = [0, 20, 100, 500, losses.length];
    const chart = svg("svg", { viewBox: `-26 -6 ${width + 44} ${height + 28}`, role: "img", "aria-label": "the loss by step" },
        svg("polyline", { points: line(losses.map((loss, step) => [step, loss])), class: "losses" }), svg("polyline", { points: line(curve.map((loss, i) => [20 * (i + 1), loss])), class: "curve" }), marker,
        ...ticks.map(step => svg("text", { x: x(step), y: height + 16, "text-anchor": "middle" }, step)),
        ...[0, 1, 2, 3, 4, 5].map(loss => svg("text", { x: -6, y: y(loss) + 4, "text-anchor": "end" }, loss)));
    const figure = html("figure", {}), note = html("p", { role: "status" });
    const compute = moving.steady(stage, async () => {
        const step = steps[state.at], weights = mapAt(step);
        marker.setAttribute("x1", x(step));
        marker.setAttribute("x2", x(step));
        figure.replaceChildren(moving.map(words, weights, `head 0 of layer 1 at step ${step}`, words), html("figcaption", {}, `layer 1, head 0, step ${step}`));
        const kept = step === 0 ? undefined : curve[step / 20 - 1];
        note.textContent = `After ${step} steps the full stop puts ${numberText(weights[stop * words.length], ".2f", "real")} of its weight on “Lily”. ${
            kept === undefined ? `The loss of the first batch is ${numberText(losses[0], ".2f", "real")}.` : `The loss on stories that are kept apart is ${numberText(kept, ".2f", "real")}; the grammar leaves ${numberText(recorded.grammar_loss.values[0], ".2f", "real")} open.`}`;
    });
    stage.append(html("p", { class: "controls" }, moving.knob(state, "at", "step", { min: 0, max: steps.length - 1, step: 1 }, compute, at => String(steps[at]))),
        html("div", { class: "forming maps two" }, figure, html("figure", {}, chart, html("figcaption", {}, "loss by step (the first steps have more room): thin, of each step; thick, on stories that are kept apart"))), note);
});
