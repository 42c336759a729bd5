// The exercise of a lesson in its page: the learner writes each step as a formula.

"use strict";

(() => {
    const place = document.querySelector(".lab-exercise[data-lesson]");
    if (!place) {
        return;
    }
    const lesson = place.dataset.lesson;

    const start = html("button", { type: "button" }, "Write it here");
    const note = html("p", { class: "lab-badge", role: "status" });
    place.append(html("p", {}, start, " in NumPy's notation, with nothing to install."), note);
    start.addEventListener("click", async () => {
        note.textContent = "…";
        try {
            const { calls } = await lab.ask({ do: "exercise", lesson });
            const functions = byFunction(calls);
            const [inWords, inFormulas] = [functions.filter(needsLoop), functions.filter(group => !needsLoop(group))];
            place.replaceChildren(
                ...inFormulas.length === 0 ? [] : [html("p", {}, "The language is ", html("a", { href: "formulas.html" }, "that of the steps' formulas"),
                    ". What is used twice can have a name on a line of its own, with Shift and Enter: ", html("code", {}, "total = sum(x)"), ". The last line is the result.")],
                ...inFormulas.map(form),
                ...inWords.map(([{ function: name, task }]) => html("p", {}, html("code", {}, name), ` needs a loop, which the page's language doesn't have: ${task}. It is written in C++ or Python.`)));
        } catch (error) {
            note.textContent = error.message;
        }
    });

    // A task in words has no formula: it needs a loop.
    const needsLoop = ([{ task }]) => task !== "";

    // Calls of one function stand together: a formula must be right for all of them.
    function byFunction(calls) {
        const groups = new Map();
        for (const call of calls) {
            groups.set(call.function, [...groups.get(call.function) ?? [], call]);
        }
        return [...groups.values()];
    }

    function arrayText({ shape, values, type }) {
        const numbers = { shape, values: values.map(Number), type };
        return values.length > 64 ? `${values.length} numbers of the shape ${shapeText(shape)}` : nested(numbers, commonFormat(numbers.values.filter(Number.isFinite)));
    }

    function form(calls) {
        const [call] = calls;
        const input = html("textarea", { rows: "1", spellcheck: "false", autocapitalize: "off", "aria-label": `${call.function} as a formula` });
        input.addEventListener("input", () => input.rows = Math.min(input.value.split("\n").length, 20)); // more are scrolled
        const verdict = html("pre", { role: "status" });
        const check = html("button", { type: "button" }, "check");
        const given = html("dl", {}, ...Object.entries(call.arguments ?? {}).flatMap(([name, array]) =>
            [html("dt", {}, html("code", {}, name)), html("dd", {}, arrayText(array))]));
        const submit = async () => {
            verdict.className = "";
            try {
                const answer = await lab.ask({ do: "exercise", lesson, formulas: { [call.function]: input.value } });
                const mine = answer.calls.filter(other => other.function === call.function);
                const wrong = mine.find(other => !other.right);
                verdict.textContent = !wrong ? `right: ${arrayText(mine[0].found)}` : wrong.error ?? wrong.report;
                verdict.className = wrong ? "wrong" : "right";
            } catch (error) {
                verdict.textContent = error.message;
                verdict.className = "wrong";
            }
        };
        check.addEventListener("click", submit);
        input.addEventListener("keydown", event => {
            if (event.key === "Enter" && !event.shiftKey) {
                event.preventDefault();
                submit();
            }
        });
        return html("section", {},
            html("p", {}, html("code", {}, `${call.function}(${Object.keys(call.arguments ?? {}).join(", ")})`), ` gives ${call.step} ${shapeText(call.expected.shape)}${calls.length > 1 ? `; it is called ${calls.length} times` : ""}.`),
            html("details", {}, html("summary", {}, "What is given"), given),
            html("p", { class: "lab-formula" }, html("label", {}, `${call.step} = `, input), check), verdict);
    }
})();
