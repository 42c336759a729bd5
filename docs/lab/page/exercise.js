// The exercise of a lesson in its page: the learner writes each step as a formula.

"use strict";

(() => {
    const place = document.querySelector(".lab-exercise[data-lesson]");
    if (!place) {
        return;
    }
    const lesson = place.dataset.lesson;

    function make(tag, attributes = {}, ...children) {
        const element = document.createElement(tag);
        for (const [name, value] of Object.entries(attributes)) {
            element.setAttribute(name, value);
        }
        element.append(...children);
        return element;
    }

    const start = make("button", { type: "button" }, "Write it here");
    const note = make("p", { class: "lab-badge", role: "status" });
    place.append(make("p", {}, start, " in NumPy's notation, with nothing to install."), note);
    start.addEventListener("click", async () => {
        note.textContent = "…";
        try {
            const { calls } = await lab.ask({ do: "exercise", lesson });
            place.replaceChildren(...byFunction(calls).map(form));
        } catch (error) {
            note.textContent = error.message;
        }
    });

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
        const input = make("input", { type: "text", spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": `${call.function} as a formula` });
        const verdict = make("pre", { role: "status" });
        const check = make("button", { type: "button" }, "check");
        const given = make("dl", {}, ...Object.entries(call.arguments ?? {}).flatMap(([name, array]) =>
            [make("dt", {}, make("code", {}, name)), make("dd", {}, arrayText(array))]));
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
        input.addEventListener("keydown", event => event.key === "Enter" && submit());
        return make("section", {},
            make("p", {}, make("code", {}, `${call.function}(${Object.keys(call.arguments ?? {}).join(", ")})`), ` gives ${call.step} ${shapeText(call.expected.shape)}. ${call.task}`),
            make("details", {}, make("summary", {}, "What is given"), given),
            make("p", { class: "lab-formula" }, make("label", {}, `${call.step} = `, input), check), verdict);
    }
})();
