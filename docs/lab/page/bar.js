// "Your numbers": the bar of a lesson's page. The reader changes what is given, and every number of the page follows.

"use strict";

(() => {
    const bar = document.querySelector(".lab[data-lesson]");
    if (!bar) {
        return;
    }
    const lesson = bar.dataset.lesson;
    const most = 256; // numbers that are edited in cells; larger arrays are pasted
    let base = null; // the example's run
    let run = null; // that the page shows
    let unchanged = null; // the run of the same inputs without an answer
    let state = { inputs: {}, round: "", ablate: [], pitfall: "" };
    let ofRun = null; // the question that the page's run answers
    let asked = 0;

    // ------------------------------------------------------------------------------------------ elements

    const open = html("button", { type: "button", class: "lab-open", "aria-expanded": "false", onclick: () => toggle() }, "Your numbers");
    const badge = html("span", { class: "lab-badge", role: "status" }, "Change what is given, and every number on this page follows. It is computed here, by the program of this lesson.");
    const trouble = html("div", { class: "lab-trouble", role: "alert" });
    const names = html("div", { class: "lab-names" });
    const editor = html("div", { class: "lab-editor" });
    const round = html("select", { onchange: () => change({ round: round.value }) });
    const pitfall = html("select", { onchange: () => change({ pitfall: pitfall.value }) });
    const ablate = html("select", { onchange: () => change({ ablate: ablate.value ? [ablate.value] : [] }) });
    const claims = html("ul", { class: "lab-claims" });
    const backToThePage = () => change({ inputs: {}, round: "", ablate: [], pitfall: "" });
    const reset = html("button", { type: "button", class: "lab-reset", hidden: true, onclick: backToThePage }, "back to the page's numbers");
    const panel = html("div", { class: "lab-panel", hidden: true },
        html("p", {}, "Given are: "), names, editor,
        html("div", { class: "lab-answers" },
            html("label", {}, "with a mistake ", pitfall), html("label", {}, "every number as ", round), html("label", {}, "set to zero ", ablate)),
        html("p", { class: "lab-buttons" },
            html("button", { type: "button", onclick: ({ currentTarget }) => copyLink(currentTarget, location.href) }, "copy a link to this"),
            " A sentence that holds for the page's numbers alone is marked."),
        claims);
    bar.append(html("div", { class: "lab-line" }, open, badge, reset), trouble, panel);
    for (const type of ["", "float32", "float16", "bfloat16"]) {
        round.append(html("option", { value: type }, type || "float64"));
    }
    pitfall.append(html("option", { value: "" }, "none"));
    ablate.append(html("option", { value: "" }, "nothing"));

    // ------------------------------------------------------------------------------------------ the run

    function question() {
        return { do: "run", lesson, inputs: Object.keys(state.inputs).length === 0 ? {} : base.inputs(state.inputs) };
    }

    const isEdited = () => Object.keys(state.inputs).length > 0 || isAltered();
    const isAltered = () => Boolean(state.round || state.pitfall || state.ablate.length);

    // Computes what the state asks for, and shows it; a later call overtakes an earlier one.
    async function compute() {
        const number = ++asked;
        document.documentElement.classList.add("lab-computing");
        try {
            base ??= await first();
            const asIs = question(), altered = isAltered() ? { ...asIs, round: state.round, pitfall: state.pitfall, ablate: state.ablate } : asIs;
            const plain = new Run(await lab.ask(asIs));
            const found = isAltered() ? new Run(await lab.ask(altered)) : plain;
            if (number !== asked) {
                return;
            }
            [unchanged, run] = [plain, found];
            ofRun = altered;
            show();
            const verified = await lab.ask({ do: "verify" }, altered);
            if (number === asked) {
                say(verified);
            }
        } catch (error) {
            if (number === asked) {
                complain(error.message);
            }
        } finally {
            document.documentElement.classList.remove("lab-computing");
        }
    }

    // What is wrong stands beside what was typed, else under the bar.
    function warn(message, beside = bar.querySelector(".lab-line")) {
        trouble.textContent = message;
        beside.after(trouble);
    }

    function complain(message, beside) {
        warn(message, beside);
        badge.textContent = "not computed: the page shows the numbers before";
    }

    async function first() {
        badge.textContent = "computing…";
        const asked = { do: "run", lesson }, example = new Run(await lab.ask(asked));
        const { mistakes } = await lab.ask({ do: "mistakes" }, asked);
        for (const { id, sentence } of mistakes) {
            pitfall.append(html("option", { value: id, title: sentence }, id));
        }
        for (const step of example.steps.values()) {
            if (step.formula !== "") {
                ablate.append(html("option", { value: step.path }, step.path));
            }
        }
        names.append(...example.answer.inputs.map(name =>
            html("button", { type: "button", "data-name": name, onclick: () => edit(name) }, `${name} ${shapeText(example.step(name).shape)}`)));
        names.previousElementSibling.hidden = example.answer.inputs.length === 0;
        return example;
    }

    function say({ recomputed, inputs, failures }) {
        const count = recomputed + inputs;
        const verdict = failures.length === 0 ? "all verified" : `${count - failures.length} verified; ${failures.map(({ path }) => path).slice(0, 3).join(", ")} ${failures.length > 1 ? "do" : "does"} not follow from ${failures.length > 1 ? "their formulas" : "its formula"} any more`;
        const marked = isAltered() ? `; ${changedSteps()} have other numbers than without it, and are marked` : "";
        badge.title = failures.map(({ message }) => message).join("\n");
        badge.textContent = `${count} steps computed here, ${verdict}${marked}`;
        bar.dataset.ready = String(asked);
    }

    const isChanged = path => {
        const [before, after] = [unchanged.step(path), run.step(path)];
        return !before || !after || String(before.shape) !== String(after.shape) || before.values.some((value, i) => !Object.is(value, after.values[i]));
    };
    const changedSteps = () => [...run.steps.keys()].filter(isChanged).length;

    function show() {
        warn(run.answer.refuted || run.answer.overflow || "");
        const keepFocus = document.activeElement?.dataset?.cell;
        live.show(run, { edited: inPlace, changed: path => run !== unchanged && path !== undefined && isChanged(path) });
        live.markSentences(isEdited());
        if (keepFocus) {
            document.querySelector(`.contents td[data-cell="${CSS.escape(keepFocus)}"]`)?.focus();
        }
        const lines = run.answer.printed.split("\n").map(line => line.trim()).filter(line => line.startsWith("[no longer so]") || line.startsWith("[checked]"));
        claims.replaceChildren(...lines.map(line => html("li", { class: line.startsWith("[checked]") ? "holds" : "fails" }, line)));
        const printed = [...document.querySelectorAll(".contents details > summary")].find(summary => summary.textContent.trim() === "What it prints");
        const text = printed?.parentElement.querySelector("pre");
        if (text) {
            text.textContent = run.answer.printed;
        }
        for (const button of names.children) {
            const step = run.step(button.dataset.name);
            button.textContent = `${button.dataset.name} ${step ? shapeText(step.shape) : ""}`;
            button.classList.toggle("edited", button.dataset.name in state.inputs);
        }
        bar.classList.toggle("edited", isEdited());
        reset.hidden = !isEdited();
        [round.value, pitfall.value, ablate.value] = [state.round, state.pitfall, state.ablate[0] ?? ""];
        if (editor.dataset.name && !editor.contains(document.activeElement)) {
            edit(editor.dataset.name);
        }
        document.documentElement.classList.add("lab-on");
        document.dispatchEvent(new CustomEvent("attn-run", { detail: run }));
    }

    // ------------------------------------------------------------------------------------------ what is given

    // A table of what is given, in the text: its cells are edited where they stand.
    function inPlace(box, step) {
        if (!base.answer.inputs.includes(step.path)) {
            return;
        }
        for (const cell of box.querySelectorAll("td[data-cell]")) {
            cell.contentEditable = "plaintext-only";
            if (cell.contentEditable !== "plaintext-only") {
                cell.contentEditable = "true";
            }
            cell.inputMode = "decimal";
            cell.classList.add("given");
            cell.addEventListener("focus", () => toggle(false)); // the bar stays in sight, and leaves room for the page
            cell.addEventListener("input", () => setCell(cell));
            cell.addEventListener("keydown", moveAmongCells);
            cell.addEventListener("paste", event => pasteInto(event, step.path));
        }
    }

    function moveAmongCells(event) {
        const cell = event.currentTarget, row = cell.parentElement;
        const column = [...row.children].indexOf(cell);
        const to = { ArrowUp: row.previousElementSibling, ArrowDown: row.nextElementSibling, Enter: row.nextElementSibling }[event.key];
        if (event.key === "Enter") {
            event.preventDefault();
        }
        to?.children[column]?.focus();
    }

    function arrayOf(name) {
        const { shape, values, type } = state.inputs[name] ?? base.step(name);
        return { shape: [...shape], values: [...values], type };
    }

    function setCell(cell) {
        const { path: name, index } = readReference(cell.dataset.cell);
        const array = arrayOf(name);
        const offset = index.filter(entry => entry !== "").reduce((sum, i, axis) => sum * array.shape[axis] + Number(i), 0);
        try {
            array.values[offset] = readNumber(cell.textContent, array.type);
        } catch (error) {
            cell.classList.add("wrong");
            complain(`${cell.dataset.cell}: ${error.message}`);
            return;
        }
        cell.classList.remove("wrong");
        change({ inputs: { ...state.inputs, [name]: array } });
    }

    function pasteInto(event, name) {
        const text = event.clipboardData.getData("text");
        if (/[\n\t\[,;]/.test(text.trim())) {
            event.preventDefault();
            setArray(name, text);
        }
    }

    function setArray(name, text) {
        const before = arrayOf(name);
        try {
            const { shape, values } = readArray(text, before.type);
            const fits = shape.length === before.shape.length;
            const asRow = shape.length === 1 && before.shape.length === 2;
            if (!fits && !asRow) {
                throw new Error(`has the shape ${shapeText(shape)}, expected ${before.shape.length} axes, (${base.step(name).axes.join(", ")})`);
            }
            change({ inputs: { ...state.inputs, [name]: { shape: asRow ? [1, ...shape] : shape, values, type: before.type } } });
        } catch (error) {
            complain(`${name}: ${error.message}`, editor.querySelector("textarea") ?? undefined);
        }
    }

    function edit(name) {
        const array = arrayOf(name), size = array.values.length;
        editor.dataset.name = name;
        const text = html("textarea", { rows: "4", spellcheck: "false", "aria-label": `${name} as a list`, placeholder: "[[1, 2], [3, 4]], or rows of a spreadsheet" });
        text.value = size <= most ? nested({ ...array, values: array.values }, ".10g").replaceAll("], ", "],\n ") : "";
        const random = () => {
            const values = array.type === "real" ? array.values.map(() => Math.round(200 * (Math.random() + Math.random() + Math.random() - 1.5)) / 100)
                : array.values.map(() => array.values[Math.floor(Math.random() * size)]);
            change({ inputs: { ...state.inputs, [name]: { ...array, values } } });
            edit(name);
        };
        const back = () => {
            const { [name]: _, ...others } = state.inputs;
            change({ inputs: others });
            edit(name);
        };
        editor.replaceChildren(
            html("p", {}, html("code", {}, name), ` ${base.step(name).axes.length ? `(${base.step(name).axes.join(", ")}) = ` : ""}${shapeText(array.shape)}. `,
                size > most ? `${size} numbers: paste others. ` : "Edit, or paste what NumPy prints or a spreadsheet holds. "),
            text,
            html("p", { class: "lab-buttons" },
                html("button", { type: "button", onclick: () => setArray(name, text.value) }, "compute with these"),
                html("button", { type: "button", onclick: random }, "random"),
                html("button", { type: "button", onclick: back }, "those of the page")));
        text.addEventListener("input", () => {
            if (size <= most) {
                setArray(name, text.value);
            }
        });
    }

    // ------------------------------------------------------------------------------------------ the state, also in the link

    function change(to) {
        state = { ...state, ...to };
        const asText = Object.keys(state.inputs).length === 0 && !isAltered() ? "" : `#lab=${encodeURIComponent(JSON.stringify(state))}`;
        if (asText.length < 60000) {
            try {
                history.replaceState(null, "", location.pathname + location.search + asText);
            } catch { /* some browsers refuse for a file, or many times in a row: the page works without */ }
        }
        return compute();
    }

    function stateInLink() {
        const text = /^#lab=(.*)$/.exec(location.hash)?.[1];
        if (!text) {
            return false;
        }
        try {
            const found = JSON.parse(decodeURIComponent(text));
            for (const array of Object.values(found.inputs ?? {})) {
                const isArray = Array.isArray(array?.shape) && array.shape.every(size => Number.isInteger(size) && size >= 0) && Array.isArray(array.values);
                if (!isArray || array.values.length !== array.shape.reduce((product, size) => product * size, 1)) {
                    throw new Error("an input is no array, or has not a number for each place of its shape");
                }
                array.values = array.values.map(value => value === null ? NaN : value);
            }
            state = { inputs: found.inputs ?? {}, round: found.round ?? "", ablate: found.ablate ?? [], pitfall: found.pitfall ?? "" };
            return true;
        } catch (error) {
            warn(`the link can't be read: ${error.message}`);
            return false;
        }
    }

    function toggle(isOpen = panel.hidden) {
        panel.hidden = !isOpen;
        open.setAttribute("aria-expanded", String(isOpen));
        if (isOpen && run === null) {
            compute();
        }
    }

    // ------------------------------------------------------------------------------------------ one number

    async function explain(cell, beside) {
        if (run === null) {
            await compute();
        }
        if (run === null) {
            throw new Error(trouble.textContent);
        }
        const { text } = await lab.ask({ do: "explain", cell }, ofRun);
        const { path } = readReference(cell), step = run.step(path);
        const lines = html("pre", {});
        const scope = path.includes(".") ? path.replace(/[^.]*$/, "") : "";
        let last = 0;
        for (const match of text.matchAll(/[A-Za-z_][\w.]*\[\d+(?:,\d+)*\]/g)) {
            const name = match[0].replace(/\[.*/, "");
            const whole = run.step(scope + name) ? scope + match[0] : run.step(name) ? match[0] : null;
            if (whole && whole !== cell) {
                lines.append(text.slice(last, match.index), html("button", { type: "button", onclick: () => tell(whole, beside) }, match[0]));
                last = match.index + match[0].length;
            }
        }
        lines.append(text.slice(last));
        const whatIf = html("button", { type: "button", onclick: () => { explained.close(); change({ ablate: [step.path] }); } }, `what if ${step.path} were zero?`);
        const back = html("button", { type: "button", onclick: () => { explained.close(true); backToThePage(); } }, reset.textContent);
        explained.show(beside, lines, html("p", { class: "lab-buttons" }, ...(step.formula === "" ? [] : [whatIf, " "]), ...(isEdited() ? [back, " "] : [])));
    }

    // How a number follows, beside it; until that is computed, what the page says of it.
    function tell(cell, beside) {
        if (run === null) {
            explained.show(beside, explained.said(beside), html("p", { role: "status" }, "loading what computes how it follows …"));
        }
        explain(cell, beside).catch(error => explained.show(beside, explained.said(beside), html("p", { class: "lab-trouble" }, error.message)));
    }

    // The number that an element shows: "weights[0,1]"; nothing where it shows none of this run, or several.
    function cellOf(element) {
        if (element.dataset.cell) {
            return element.dataset.cell.replace("[]", "");
        }
        const { path, index } = readReference(element.dataset.live ?? "-");
        return index.some(entry => entry.includes(":")) ? null : `${path}${index.length ? `[${index}]` : ""}`;
    }

    // Several numbers: each has a button.
    async function tellSeveral(number) {
        if (run === null) {
            explained.show(number, explained.said(number), html("p", { role: "status" }, "loading what computes how they follow …"));
            await compute();
        }
        const { path, index, format } = readReference(number.dataset.live), step = run?.step(path);
        if (!step) {
            return explained.show(number, explained.said(number));
        }
        const part = take(step, index), written = format || commonFormat([...part.values]);
        explained.show(number, explained.said(number), html("p", {}, "How one of them follows: ", ...part.places.flatMap((place, i) =>
            [html("button", { type: "button", title: `${path}[${place}]`, onclick: () => tell(`${path}[${place}]`, number) }, numberText(part.values[i], written, part.type)), " "])));
    }

    explained.how = number => {
        if (!number.dataset.live || number.classList.contains("not-computed")) {
            return false;
        }
        number.matches(".one") ? tell(cellOf(number), number) : tellSeveral(number);
        return true;
    };

    document.addEventListener("click", async event => {
        const number = event.target.closest?.(".contents table.tensor-values td"), box = number?.closest("[data-live]");
        if (!box || number.isContentEditable || event.target.closest(".from-run, .moving")) {
            return;
        }
        const place = [...box.querySelectorAll("td")].indexOf(number);
        if (run === null) { // a table of the page as it came: its place in the table that is computed
            await compute();
        }
        const cell = box.querySelectorAll("td")[place];
        if (cell && !cell.isContentEditable && cellOf(cell)) {
            tell(cellOf(cell), cell);
        }
    });

    window.addEventListener("hashchange", () => stateInLink() && compute());
    if (stateInLink()) {
        toggle(true);
    }
})();
