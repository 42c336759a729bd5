// Softmax of a row in one pass, block by block: the largest score so far, the sum so far, and what the sum is multiplied by when a larger
// score comes. Lesson 18.

"use strict";

moving.stages("onepass", stage => {
    const state = moving.state(stage, { row: "1 5 3 6 2 4", size: 1, step: 0 });
    let row = [];
    const read = text => {
        const { shape, values } = readArray(text, "real");
        if (shape.length !== 1 || values.length < 2 || values.length > 12 || !values.every(Number.isFinite)) {
            throw new Error(`expected 2 to 12 finite scores, found ${shapeText(shape)}`);
        }
        row = values;
        state.step = Math.min(state.step, blocks() - 1);
    };
    const blocks = () => Math.ceil(row.length / (state.size + 1));

    const bars = html("div", { class: "bars moving-bars", role: "img", "aria-label": "exponentials of the scores" }), table = html("table", { class: "tensor-values" }), note = html("p", { role: "status" });
    const compute = moving.steady(stage, async () => {
        const size = state.size + 1, count = blocks(), n = row.length;
        if (n === 0) {
            return; // what the link has is refused beside the line
        }
        state.step = Math.min(state.step, count - 1);
        const end = b => Math.min(n, size * (b + 1)), part = b => `row[${size * b}:${end(b)}]`;
        const formulas = { m_start: "0 * row[0] - inf", l_start: "0 * row[0]" };
        for (let b = 0, before = "start"; b < count; before = b++) {
            formulas[`m_${b}`] = `maximum(m_${before}, max(${part(b)}))`;
            formulas[`correction_${b}`] = `exp(m_${before} - m_${b})`;
            formulas[`l_${b}`] = `l_${before} * correction_${b} + sum(exp(${part(b)} - m_${b}))`;
        }
        formulas.terms = `exp(row[0:${end(state.step)}] - m_${state.step})`;
        formulas.one_pass = `exp(row - m_${count - 1}) / l_${count - 1}`;
        formulas.two_passes = "softmax(row)";
        formulas.difference = "max(abs(one_pass - two_passes))";
        const { results } = await lab.ask({ do: "evaluate", given: { row: moving.array([n], row) }, formulas });
        const one = name => Number(results[name].values[0]), text = (name, format = ".4f") => numberText(one(name), format, "real");

        const { values: terms } = results.terms, first = size * state.step;
        while (bars.children.length !== n) { // they stay, so that their heights move
            bars.children.length < n ? bars.append(html("div", { class: "bar" }, html("span"), html("i"), html("small"))) : bars.lastChild.remove();
        }
        bars.style.gridTemplateColumns = `repeat(${n}, 1fr)`;
        [...bars.children].forEach((bar, j) => {
            bar.style.setProperty("--share", j < terms.length ? terms[j] : 0);
            bar.className = j >= terms.length ? "bar unread" : j >= first ? "bar now" : "bar";
            bar.firstChild.textContent = j < terms.length ? numberText(terms[j], ".2f", "real") : "";
            bar.lastChild.textContent = numberText(row[j], ".4g", "real");
        });
        bars.setAttribute("aria-label", `exponentials of the scores so far, less the largest: ${Array.from(terms, term => term.toFixed(2)).join(", ")}`);

        const done = [...Array(state.step + 1).keys()];
        table.replaceChildren(html("tr", {}, ...["scores", "m", "correction", "l"].map(name => html("th", {}, name))), ...done.map(b => html("tr", {},
            html("td", {}, row.slice(size * b, end(b)).map(score => numberText(score, ".4g", "real")).join(" ")), html("td", {}, text(`m_${b}`, ".4g")), html("td", {}, text(`correction_${b}`)), html("td", {}, text(`l_${b}`)))));
        const now = state.step, grew = now > 0 && one(`m_${now}`) > one(`m_${now - 1}`);
        note.textContent = now === 0 ? `The first ${size > 1 ? "block" : "score"}: m is its largest score, and l its sum of exp(score − m).`
            : grew ? `A larger score: all that is in l was computed with m = ${text(`m_${now - 1}`, ".4g")}. One multiplication by ${text(`correction_${now}`)} corrects it.`
            : "No larger score: the correction is 1, and what is new is added.";
        if (now === count - 1) {
            note.textContent += ` That was the last: the weights exp(score − m) / l differ from softmax in two passes by ${numberText(one("difference"), ".1e", "real")}.`;
        }
        walk.show();
    });
    const scores = moving.field(state, "row", "scores", { size: 18 }, read, () => compute());
    const walk = moving.steps(state, "step", () => Math.max(0, blocks() - 1), () => compute());
    stage.append(
        scores,
        html("p", { class: "controls" }, walk.element, moving.choice(state, "size", ["one by one", "blocks of 2", "blocks of 3"], () => compute())),
        bars, html("div", { class: "scroll" }, table), note);
});
