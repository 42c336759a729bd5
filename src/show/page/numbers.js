'use strict';

// The trace: its steps, their numbers once they are loaded, and numbers as text.

const byId = id => document.getElementById(id);

// ---------------------------------------------------------------------------------------------------- shapes and texts

const countOf = shape => shape.reduce((product, size) => product * size, 1);
const offsetOf = (index, shape) => shape.reduce((offset, size, axis) => offset * size + index[axis], 0);

function indexAt(offset, shape) {
    const index = new Array(shape.length);
    for (let axis = shape.length; axis-- > 0;) {
        index[axis] = offset % shape[axis];
        offset = Math.floor(offset / shape[axis]);
    }
    return index;
}

const sameShape = (a, b) => a.length === b.length && a.every((size, axis) => size === b[axis]);
const bracketed = index => index.length === 0 ? '' : `[${index.join(',')}]`;

/** The shortest text that reads back as the same number, as C++ writes it: "0.1", "1e-05". */
function exactText(number) {
    if (Number.isNaN(number)) return 'nan';
    if (!Number.isFinite(number)) return number > 0 ? 'inf' : '-inf';
    if (number === 0) return Object.is(number, -0) ? '-0' : '0';
    const sign = number < 0 ? '-' : '';
    const [mantissa, power] = Math.abs(number).toExponential().split('e');
    const digits = mantissa.replace('.', ''), exponent = Number(power);
    const scientific = `${mantissa}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`;
    let fixed;
    if (exponent < 0) {
        if (-exponent > scientific.length) return sign + scientific;
        fixed = '0.' + '0'.repeat(-exponent - 1) + digits;
    } else if (exponent >= digits.length - 1) {
        if (exponent >= scientific.length) return sign + scientific;
        fixed = Number.isSafeInteger(number) ? String(Math.abs(number)) : String(BigInt(Math.abs(number)));
    } else {
        fixed = digits.slice(0, exponent + 1) + '.' + digits.slice(exponent + 1);
    }
    return sign + (fixed.length <= scientific.length ? fixed : scientific);
}

const valueText = (value, type) => type === 'boolean' ? (value !== 0 ? 'true' : 'false') : exactText(value);

const axesText = ({axes, shape}) => shape.length === 0 ? ''
    : `[${shape.map((size, axis) => axes.length > 0 ? `${axes[axis]}=${size}` : size).join(', ')}]`;

// ---------------------------------------------------------------------------------------------------- numbers

/** The numbers of a .npy file as attn writes it. */
function decodeNpy(bytes) {
    const start = 10 + bytes[8] + 256 * bytes[9]; // a multiple of 64
    const type = /'descr': '([^']*)'/.exec(new TextDecoder().decode(bytes.subarray(10, start)))[1];
    switch (type) {
    case '<f4': return new Float32Array(bytes.buffer, start);
    case '<f8': return new Float64Array(bytes.buffer, start);
    case '<i8': return Float64Array.from(new BigInt64Array(bytes.buffer, start), Number);
    default: return bytes.subarray(start);
    }
}

/** What a scale of colours has to know: the range of the finite numbers, and which others there are. */
function summaryOf(values) {
    let low = Infinity, high = -Infinity, whole = true;
    const special = new Set();
    for (const value of values) {
        if (value - value === 0) {
            if (value < low) low = value;
            if (value > high) high = value;
            if (value === 0) special.add('0');
            else if (whole && value !== Math.trunc(value)) whole = false;
        } else special.add(exactText(value));
    }
    return low <= high ? {low, high, whole, special: [...special]} : {whole, special: [...special]};
}

const MOST_LOADED = 64 * 2 ** 20; // numbers that stay in memory
const loaded = new Set(); // tensors, the latest last
let pending = 0; // what has been asked for

/** Waits for an answer; the page says that it is busy meanwhile. */
async function awaited(answer) {
    byId('step').setAttribute('aria-busy', String(++pending > 0));
    try {
        return await answer;
    } finally {
        byId('step').setAttribute('aria-busy', String(--pending > 0));
    }
}

/** Makes sure that tensors have their numbers. Others that were looked at longest ago lose theirs. */
async function load(tensors) {
    await awaited(Promise.all(tensors.filter(({values}) => !values).map(async tensor => {
        const values = decodeNpy(await source.tensor(...tensor.numbers));
        Object.assign(tensor, summaryOf(values), {values});
    })));
    let total = 0;
    for (const tensor of tensors) loaded.delete(tensor);
    for (const tensor of tensors) loaded.add(tensor);
    for (const {values} of loaded) total += values.length;
    for (const tensor of loaded) {
        if (total <= MOST_LOADED || tensors.includes(tensor)) break;
        total -= tensor.values.length;
        tensor.values = null;
        loaded.delete(tensor);
    }
}

// ---------------------------------------------------------------------------------------------------- the trace

const SIDES = ['step', 'other']; // of an entry: the step of the first run and of the second

class Model {
    constructor(json) {
        Object.assign(this, json);
        this.titles = {step: json.title, other: json.other};
        this.entries = json.steps.map((entry, place) => ({...entry, place, path: (entry.step || entry.other).path, aliases: []}));
        this.places = new Map(this.entries.map(entry => [entry.path, entry.place]));
        this.runs = [[], []];
        const tensors = new Map();
        for (const entry of this.entries) {
            SIDES.forEach((side, run) => {
                const step = entry[side];
                if (!step) return;
                const key = String(step.numbers), {shape, type, numbers} = step;
                if (!tensors.has(key)) tensors.set(key, {shape, type, numbers});
                step.tensor = tensors.get(key);
                step.run = run;
                this.runs[run][step.step] = entry;
            });
        }
        this.aliases = json.aliases.map(([path, target]) => ({path, entry: this.entries[this.places.get(target)]}));
        for (const {path, entry} of this.aliases) {
            entry.aliases.push(path);
            this.places.set(path, entry.place);
        }
        this.findFamilies();
    }

    /** The steps that are the same of another head or layer: those whose paths differ in one number only. */
    findFamilies() {
        this.families = new Map();
        for (const entry of this.entries) {
            const words = entry.path.split('.');
            words.forEach((word, at) => {
                if (!/^\d+$/.test(word)) return;
                const key = [...words.slice(0, at), '#', ...words.slice(at + 1)].join('.');
                if (!this.families.has(key)) this.families.set(key, []);
                this.families.get(key).push({number: Number(word), entry});
            });
        }
    }

    /** The innermost family of two or more that a step belongs to. */
    siblingsOf(entry) {
        const words = entry.path.split('.');
        for (let at = words.length - 1; at > 0; --at) {
            const family = this.families.get([...words.slice(0, at), '#', ...words.slice(at + 1)].join('.'));
            if (family && family.length > 1) return {word: words[at - 1], family};
        }
        return null;
    }

    /** {text, cells} of one number of a step; nothing where only `attn explain` can tell. */
    async explanationOf(step, offset) {
        if (step.formula !== '') return awaited(source.explanation(step.run, step.step, offset));
        await load([step.tensor]);
        const number = valueText(step.tensor.values[offset], step.type);
        return {text: `${step.path}${bracketed(indexAt(offset, step.shape))} = ${number}\n  an input: it has no formula\n`, cells: []};
    }
}
