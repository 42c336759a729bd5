// The numbers of a lesson's page, made again for a run in the page. The generator marks what follows the run:
// data-live="weights[0,1]:.2f" on a number, data-live="shape weights" on a shape, on a box of tables data-live="weights", and
// before a formula or code an <i class="live-math" data-template="… ⟦weights[0]⟧ …">.

"use strict";

const live = (() => {
    const original = new Map(); // what an element said in the example

    const textOf = element => element.textContent.replace(/\s+/g, " ").trim();

    function keep(element) {
        if (!original.has(element)) {
            original.set(element, textOf(element));
        }
    }

    function partOf(run, reference) {
        const { path, index, format } = readReference(reference);
        const step = run.step(path);
        if (!step || index.length > step.shape.length) {
            return null;
        }
        const part = take(step, index);
        return part.values.length > 0 ? { ...part, step, format: format || commonFormat([...part.values]) } : null;
    }

    function number(run, element) {
        const part = partOf(run, element.dataset.live);
        if (part) {
            element.textContent = nested(part, part.format);
            const { path, index } = readReference(element.dataset.live);
            element.title = `${path}${index.length ? `[${index}]` : ""} = ${nested(part, ".10g")}, computed here`;
        }
        return part;
    }

    function tables(run, element, edited) {
        const part = partOf(run, element.dataset.live);
        if (!part || part.shape.length > 4 || part.values.length > 1024) {
            return null;
        }
        const names = [...element.querySelectorAll(".tensor-name")].map(name => name.innerHTML);
        const leads = part.shape.slice(0, -2).reduce((all, size) => all.flatMap(lead => Array.from({ length: size }, (_, i) => [...lead, i])), [[]]);
        const rank = Math.min(2, part.shape.length), [rows, columns] = [...Array(2 - rank).fill(1), ...part.shape.slice(-2)];
        const axes = part.axes.slice(-2), isMatrix = rank === 2;
        const last = axes[axes.length - 1] ?? "", isCrowded = columns > 4 || last.length > 4, inCorner = isCrowded && isMatrix && last !== "";
        const label = (axis, i) => {
            const name = axes[axis] ?? "", isShort = axis === axes.length - 1 && isCrowded && (inCorner || i > 0);
            return name && !isShort ? `${name} = ${i}` : String(i);
        };
        element.innerHTML = leads.map((lead, which) => {
            const values = part.values.slice(which * rows * columns, (which + 1) * rows * columns);
            const places = part.places.slice(which * rows * columns);
            const fractional = part.type === "real" && values.every(value => value >= 0 && value <= 1) && !values.every(Number.isInteger);
            const cell = (value, place) => {
                const text = numberText(value, part.format, part.type);
                const kind = fractional ? `share-${Math.round(10 * value)}` : ["-inf", "false"].includes(text) || value === 0 ? "nothing" : "";
                return `<td class="${kind}" data-cell="${part.step.path}[${place}]">${text}</td>`;
            };
            const head = rank === 0 ? "" : `<tr>${isMatrix ? `<th>${inCorner ? `${last} =` : ""}</th>` : ""}${Array.from({ length: columns }, (_, i) => `<th>${label(axes.length - 1, i)}</th>`).join("")}</tr>`;
            const body = Array.from({ length: rows }, (_, row) => `<tr>${isMatrix ? `<th>${label(0, row)}</th>` : ""}${
                Array.from({ length: columns }, (_, column) => cell(values[row * columns + column], places[row * columns + column])).join("")}</tr>`).join("");
            const name = names[which] ?? `<code>${part.step.path}[${lead}]</code>`;
            return `<div class="tensor"><div class="tensor-name">${name}</div><div class="scroll"><table class="tensor-values">${head}${body}</table></div></div>`;
        }).join("");
        if (part.step.formula === "") {
            edited(element, part.step);
        }
        return part;
    }

    function template(run, mark, write) {
        let complete = true;
        const text = mark.dataset.template.replace(/⟦([^⟧]*)⟧/g, (_, reference) => {
            const part = partOf(run, reference);
            complete &&= part !== null;
            return part ? write(part, part.format) : "?";
        });
        return complete ? text : null;
    }

    function formula(run, mark) {
        const scripts = [...document.querySelectorAll('script[type^="math/tex"]')];
        const script = scripts.find(candidate => mark.compareDocumentPosition(candidate) & Node.DOCUMENT_POSITION_FOLLOWING);
        const jax = script && window.MathJax?.Hub.getJaxFor(script);
        const text = template(run, mark, tex);
        if (jax && text !== null) {
            window.MathJax.Hub.Queue(["Text", jax, text]);
        }
        return text;
    }

    function code(run, mark) {
        const text = template(run, mark, nested);
        const element = mark.nextElementSibling;
        if (text !== null && element) {
            element.textContent = text;
        }
        return text;
    }

    // A heatmap that matplotlib drew: its cells and their numbers.
    function heatmap(run, figure) {
        for (const element of figure.querySelectorAll("[data-live]")) {
            const part = partOf(run, element.dataset.live);
            if (!part) {
                continue;
            }
            const value = part.values[0];
            if (element.matches("path")) {
                const { cellColour, largest } = element.closest("[data-cell-colour]").dataset;
                const strength = Number.isFinite(value) ? Math.min(1, Math.abs(value) / Number(largest)) : 0;
                element.style.fill = `var(${value >= 0 ? cellColour : "--attn-orange"})`;
                element.style.opacity = 0.85 * strength;
            } else {
                element.textContent = value === -Infinity ? "−∞" : numberText(value, element.dataset.words ?? `.${element.dataset.decimals}f`, "real");
            }
        }
    }

    // Shows a run. What it does not have is marked, and keeps the example's numbers. edited(box, step) is called for tables of
    // what is given; changed(path) says whether a step has other numbers than without an answer.
    function show(run, { edited, changed }) {
        for (const element of document.querySelectorAll(".contents [data-live]:not(svg *)")) {
            keep(element);
            const reference = element.dataset.live;
            let part;
            if (reference.startsWith("shape ")) {
                const step = run.step(reference.slice(6));
                part = step ?? null;
                if (step) {
                    element.textContent = shapeText(step.shape);
                }
            } else {
                part = element.matches("span") ? number(run, element) : tables(run, element, edited);
            }
            element.classList.toggle("not-computed", part === null);
            element.classList.toggle("changed", part !== null && changed(part.step?.path ?? part.path));
        }
        for (const mark of document.querySelectorAll("i.live-math, i.live-code")) {
            (mark.className === "live-math" ? formula : code)(run, mark);
        }
        document.querySelectorAll("figure.picture").forEach(figure => heatmap(run, figure));
        for (const figure of document.querySelectorAll("figure.picture")) {
            figure.classList.toggle("of-example", figure.querySelector("svg [data-live]") === null);
        }
    }

    // ------------------------------------------------------------------------------------------ sentences

    const APART = ".moving, .lab, .lab-exercise, .pager, .contents-of-page, .tensor, table";
    // A number after one of these words counts something off, and is no result; nor is a shape, (3, 1).
    const INDEX = /\b(lesson|layer|head|token|row|column|key|query|queries|value|step|position|rank|part|section|exercise|block|expert|axis|axes|pair|hop|channel)s?\s+\d+((,| and| to| or)\s+\d+)*|\b(19|20)\d\d\b/gi;

    // Whether words have a number of their own, which does not follow: in the text, in a formula after an equals sign, or as code.
    function hasOwnNumber(block) {
        const copy = block.cloneNode(true);
        copy.querySelectorAll("i.live-math, i.live-code").forEach(mark => mark.nextElementSibling?.remove());
        const formulas = [...copy.querySelectorAll("script")].map(script => script.textContent);
        const codes = [...copy.querySelectorAll("code, .tt")].map(code => code.textContent);
        copy.querySelectorAll("[data-live], .from-run, a, code, .tt, script, .MathJax_SVG, .MathJax_Preview, details, ul, ol").forEach(element => element.remove());
        return /\d/.test(copy.textContent.replace(INDEX, "").replace(/\(\d+(, ?\d*)*\)/g, "")) || formulas.some(text => /(=|\\approx)\s*-?\d/.test(text)) || codes.some(text => /^[[(]?-?\d/.test(text));
    }

    // While the reader's own numbers are shown: a sentence with a number that follows, or with one of its own where something around it
    // follows, was written for the page's numbers, and says so.
    function markSentences(isEdited) {
        let part = { isChanged: false };
        const blocks = [];
        for (const element of document.querySelectorAll(".contents :is(h1, h2, h3, summary, p, li, dd, [data-live]:not(svg *))")) {
            if (element.matches("h1, h2, h3, summary")) {
                part = { isChanged: false };
            } else if (element.matches("[data-live]")) {
                part.isChanged ||= original.has(element) && textOf(element) !== original.get(element);
            } else if (!element.closest(APART) && !element.querySelector(":scope > p")) {
                blocks.push([element, part]);
            }
        }
        for (const [block, { isChanged }] of blocks) {
            const follows = [...block.querySelectorAll("[data-live]")].some(number => original.has(number) && textOf(number) !== original.get(number));
            block.classList.toggle("of-page", isEdited && (follows || (isChanged && hasOwnNumber(block))));
        }
    }

    return { show, markSentences };
})();
