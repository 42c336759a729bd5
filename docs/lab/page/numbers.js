// Steps of a run in the page, and numbers as docs/generator/numbers.py writes them.

"use strict";

// The steps of an answer by path or other name: {shape, axes, formula, type, values}.
class Run {
    constructor(answer) {
        this.answer = answer;
        this.steps = new Map(answer.steps.map(step => {
            const size = step.shape.reduce((a, b) => a * b, 1);
            return [step.path, { ...step, values: answer.numbers.subarray(step.at, step.at + size) }];
        }));
    }
    step(path) {
        return this.steps.get(path) ?? this.steps.get(this.answer.aliases[path]);
    }
    // What this run was given, as the next one is asked for, with some of it changed.
    inputs(changed) {
        return Object.fromEntries(this.answer.inputs.map(name => {
            const { shape, values, type } = changed[name] ?? this.step(name);
            return [name, { shape, type, values: Array.from(values, value => Number.isFinite(value) ? value : String(value).replace("Infinity", "inf")) }];
        }));
    }
    get given() {
        return [...this.steps.values()].filter(step => step.formula === "");
    }
}

// What "weights[0,1:]:.2f" names: {path, index, format}.
function readReference(text) {
    const [, path, index, format] = /^([\w.]+?)(?:\[([^\]]*)\])?(?::([^\]]*))?$/.exec(text);
    return { path, index: index === undefined ? [] : index.split(",").map(entry => entry.trim()), format };
}

// The part of a step that an index selects: {shape, axes, values, places}; a place is the number's index in the step.
function take(step, index) {
    const axes = [], shape = [], chosen = [];
    step.shape.forEach((size, axis) => {
        const entry = index[axis] ?? ":";
        const at = (text, otherwise) => text === "" ? otherwise : Math.min(size, Math.max(0, Number(text) + (Number(text) < 0 ? size : 0)));
        if (entry.includes(":")) {
            const [from, to] = entry.split(":").map(part => part.trim());
            const places = [];
            for (let i = at(from, 0); i < at(to, size); i++) {
                places.push(i);
            }
            axes.push(step.axes[axis] ?? "");
            shape.push(places.length);
            chosen.push(places);
        } else {
            const place = Number(entry) + (Number(entry) < 0 ? size : 0);
            chosen.push(place >= 0 && place < size ? [place] : []);
        }
    });
    let places = [[]];
    for (const axis of chosen) {
        places = places.flatMap(before => axis.map(place => [...before, place]));
    }
    const offset = place => place.reduce((sum, i, axis) => sum * step.shape[axis] + i, 0);
    return { shape, axes, places, values: places.map(place => step.values[offset(place)]), type: step.type };
}

function commonFormat(values) {
    const finite = values.filter(Number.isFinite);
    if (finite.every(value => Number.isInteger(value) && Math.abs(value) < 1e9)) {
        return ".0f";
    }
    const largest = finite.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    return largest >= 1e-3 && largest < 1e6 ? ".4f" : ".3e";
}

function exponentText(text) { // 1.5e-7 as Python has it, 1.5e-07
    return text.replace(/e([+-])(\d)$/, "e$10$2");
}

function general(value, digits) { // Python's format g
    if (value === 0) {
        return "0";
    }
    const exponent = Number(value.toExponential(digits - 1).split("e")[1]);
    return exponent < -4 || exponent >= digits
        ? exponentText(value.toExponential(digits - 1).replace(/\.?0+e/, "e"))
        : value.toFixed(Math.max(0, digits - 1 - exponent)).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

function numberText(value, format, type) {
    if (Object.hasOwn(attnWords, format)) { // an id of a model's vocabulary
        return attnWords[format][value] ?? "?";
    }
    if (type === "boolean") {
        return value ? "true" : "false";
    }
    if (!Number.isFinite(value)) {
        return Number.isNaN(value) ? "NaN" : value > 0 ? "inf" : "-inf";
    }
    const [, comma, digits, kind] = /^(,?)(?:\.(\d+))?([a-z%]?)$/.exec(format) ?? [];
    const text = kind === "f" ? toFixed(value, Number(digits ?? 6))
        : kind === "e" ? exponentText(value.toExponential(Number(digits ?? 6)))
        : kind === "%" ? `${toFixed(100 * value, Number(digits ?? 6))}%`
        : general(value, Number(digits ?? (kind === "g" ? 6 : 12)));
    const grouped = comma ? text.replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, ",") : text;
    return /^-0(\.0*)?$/.test(grouped) ? grouped.slice(1) : grouped;
}

// To even where a number lies in the middle, as Python rounds; JavaScript rounds up there.
function toFixed(value, digits) {
    const scaled = Math.abs(value) * 2 ** 20;
    if (Number.isInteger(scaled) && digits <= 15) { // few binary digits: a middle can be met exactly
        const whole = BigInt(scaled) * 10n ** BigInt(digits), half = 1n << 19n;
        let rounded = whole >> 20n;
        const rest = whole - (rounded << 20n);
        rounded += rest > half || (rest === half && rounded % 2n === 1n) ? 1n : 0n;
        const text = rounded.toString().padStart(digits + 1, "0");
        return (value < 0 ? "-" : "") + (digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`);
    }
    return value.toFixed(digits);
}

// The numbers as nested lists.
function nested(part, format) {
    if (Object.hasOwn(attnWords, format)) {
        return Array.from(part.values, id => numberText(id, format)).join(" ");
    }
    if (part.shape.length === 0) {
        return numberText(part.values[0], format, part.type);
    }
    const size = part.values.length / part.shape[0];
    const parts = Array.from({ length: part.shape[0] }, (_, i) =>
        nested({ ...part, shape: part.shape.slice(1), values: part.values.slice(i * size, (i + 1) * size) }, format));
    return `[${parts.join(", ")}]`;
}

function tex(part, format) {
    const named = { NaN: "\\mathrm{NaN}", inf: "\\infty", "-inf": "-\\infty", true: "\\mathrm{true}", false: "\\mathrm{false}" };
    const one = value => {
        const text = numberText(value, format, part.type);
        return named[text] ?? text.replace(/e([+-])0*(\d+)$/, (_, sign, power) => ` \\cdot 10^{${sign === "-" ? "-" : ""}${power}}`);
    };
    if (part.shape.length === 0) {
        return one(part.values[0]);
    }
    const columns = part.shape[part.shape.length - 1];
    const rows = [];
    for (let i = 0; i < part.values.length; i += columns) {
        rows.push(Array.from(part.values.slice(i, i + columns), one).join(" & "));
    }
    return `\\begin{bmatrix} ${rows.join(" \\\\ ")} \\end{bmatrix}`;
}

// "(3, 4)", "(3,)"
function shapeText(shape) {
    return shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
}

// What a reader typed, as a message has room for it.
function quotedText(text, longest = 40) {
    return JSON.stringify(text.length > longest ? `${text.slice(0, longest)}…` : text);
}
