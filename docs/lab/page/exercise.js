// The exercise of a lesson in its page: the learner writes NumPy, as the lesson shows it, and gets hints stage by stage.

"use strict";

(() => {
    const place = document.querySelector(".lab-exercise[data-lesson]");
    if (!place) {
        return;
    }
    const lesson = place.dataset.lesson;
    const asked = new Map([...place.querySelectorAll("p[data-function]")].map(one => [one.dataset.function, one]));

    const start = html("button", { type: "button" }, "Write it here");
    const note = html("p", { class: "lab-badge", role: "status" });
    const invitation = html("p", {}, start, " in NumPy, with nothing to install.");
    place.append(invitation, note);
    let before = place.previousElementSibling; // what is written here comes before what is installed
    while (before && !/^H\d$/.test(before.tagName)) {
        before = before.previousElementSibling;
    }
    before?.after(place);
    start.addEventListener("click", open);
    if (kept("text")) {
        open(); // what was begun at another visit
    }

    // What was written and what was right, by function: at the next visit it is there again.
    function kept(what) {
        try {
            return JSON.parse(chosen.get(`attn-exercise-${what}-${lesson}`));
        } catch {
            return null;
        }
    }

    function keep(what, name, value) {
        chosen.set(`attn-exercise-${what}-${lesson}`, JSON.stringify({ ...kept(what), [name]: value }));
    }

    async function open() {
        start.disabled = true;
        start.textContent = "loading what checks it …";
        note.textContent = "";
        try {
            const { calls } = await lab.ask({ do: "exercise", lesson });
            const functions = byFunction(calls);
            const forms = functions.map(form);
            invitation.remove();
            note.remove();
            place.append(html("p", {}, "Names, formulas, loops, ", html("code", {}, "if"), ", ", html("code", {}, "return"), ", lists and functions of your own are understood; the functions are those of ",
                html("a", { href: "formulas.html" }, "the formulas"), " and the usual ones that make arrays.", html("span", { class: "with-keys" }, " Ctrl and Enter check.")));
            for (const one of forms) {
                place.append(one.section);
            }
            for (const one of forms) {
                one.restore();
            }
        } catch (error) {
            note.textContent = error.message;
            start.textContent = "Write it here";
            start.disabled = false;
        }

        function noteRight(name, isRight) {
            keep("right", name, isRight);
            const right = kept("right") ?? {};
            const names = byNames();
            if (names.length > 0 && names.every(one => right[one])) {
                chosen.set(`attn-done-${lesson.slice(0, 2)}`, "1");
            }
        }

        function byNames() {
            return [...place.querySelectorAll("section[data-name]")].map(section => section.dataset.name);
        }

        function form(calls) {
            const [call] = calls;
            const name = call.function;
            const given = Object.entries(call.arguments ?? {});
            const head = `def ${name}(${given.map(([parameter]) => parameter).join(", ")}):`;
            const text = html("textarea", { rows: "4", spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": `the lines of ${name}` });
            text.addEventListener("input", () => {
                keep("text", name, text.value);
                grow();
            });
            const grow = () => { text.rows = Math.min(Math.max(text.value.split("\n").length + 1, 4), 20); };
            const verdict = html("div", { class: "verdict", role: "status" });
            const check = html("button", { type: "button", onclick: submit }, "check");
            const gives = calls.filter((other, i) => calls.findIndex(one => one.result === other.result) === i)
                .map(({ step, expected }) => `${step} ${shapeText(expected.shape)}`).join(", ");
            const section = html("section", { "data-name": name },
                html("p", { class: "asked" }, html("code", {}, head), ` gives ${gives}`),
                ...asked.has(name) ? [asked.get(name)] : [],
                html("details", {}, html("summary", {}, calls.length > 1 ? `What is given in the first of ${calls.length} calls` : "What is given"),
                    html("dl", {}, ...given.flatMap(givenText))),
                text, html("p", {}, check), verdict);
            if (asked.has(name)) {
                asked.get(name).hidden = false;
            }
            text.addEventListener("keydown", event => {
                if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
                    event.preventDefault();
                    submit();
                }
            });

            // What other functions of the exercise say can be called, too.
            function formulas() {
                const all = Object.fromEntries([...place.querySelectorAll("section[data-name]")].map(one => [one.dataset.name, one.querySelector("textarea").value])
                    .filter(([other, lines]) => other === name || lines.trim() !== ""));
                return all;
            }

            async function submit() {
                let answer;
                try {
                    answer = await lab.ask({ do: "exercise", lesson, formulas: formulas() });
                } catch (error) {
                    return show(false, html("p", {}, error.message));
                }
                const mine = answer.calls.filter(other => other.function === name);
                const wrong = mine.find(other => !other.right);
                noteRight(name, !wrong);
                if (!wrong) {
                    return show(true, html("p", {}, "✓ right: ", ...mine.slice(0, 1).map(({ found }) => arrayText(found))));
                }
                if (wrong.error !== undefined) {
                    return show(false, html("p", {}, wrong.error));
                }
                show(false, ...hints(name, wrong));
            }

            function show(isRight, ...said) {
                section.classList.toggle("right", isRight);
                section.classList.toggle("wrong", !isRight);
                verdict.replaceChildren(...said);
            }

            function restore() {
                text.value = kept("text")?.[name] ?? "";
                grow();
                if (kept("right")?.[name]) {
                    submit();
                }
            }
            return { section, restore };
        }
    }

    // First what is wrong; a button tells the step, another shows how one can write it.
    function hints(name, { hints: { what, step, mistake }, names }) {
        const parts = mistake ? [html("p", { class: "mistake" }, mistake.sentence, " ", html("small", {}, html("a", { href: mistake.link }, mistake.id)))] : [];
        parts.push(html("pre", {}, what));
        if (names.length > 0) {
            parts.push(html("p", {}, "Right so far: ", ...names.flatMap(({ name, step: of }, i) => [i > 0 ? ", " : "", html("code", {}, name), name === of ? "" : ` (${of})`]), "."));
        }
        const more = html("p", {});
        const stages = [["Which step?", step], ["Show the line", solved(name)]].filter(([, text]) => text !== "");
        const next = () => {
            more.replaceChildren();
            const [title, text] = stages.shift() ?? [];
            if (title) {
                more.append(html("button", { type: "button", onclick: () => {
                    more.before(html("pre", {}, text));
                    next();
                } }, title));
            }
        };
        next();
        return [...parts, more];
    }

    // The lines of the lesson's own solution.
    function solved(name) {
        const lines = place.querySelector(`pre.solved[data-function="${name}"]`).textContent;
        return `${lines.includes("\n") ? "These lines are right" : "This line is right"}:\n${lines}`;
    }

    // Calls of one function stand together: its lines must be right for all of them.
    function byFunction(calls) {
        const groups = new Map();
        for (const call of calls) {
            groups.set(call.function, [...groups.get(call.function) ?? [], call]);
        }
        return [...groups.values()];
    }

    function givenText([name, array]) {
        const all = array.weights ? Object.entries(array.weights).map(([key, one]) => [`${name}["${key}"]`, one]) : [[name, array]];
        return all.flatMap(([key, one]) => [html("dt", {}, html("code", {}, key)), html("dd", {}, arrayText(one))]);
    }

    function arrayText({ shape, values, type }) {
        const numbers = { shape, values: values.map(Number), type };
        return values.length > 64 ? `${values.length} numbers of the shape ${shapeText(shape)}` : nested(numbers, commonFormat(numbers.values.filter(Number.isFinite)));
    }
})();
