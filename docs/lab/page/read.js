// Reads numbers that a reader typed or pasted: NumPy's, a spreadsheet's, or a list.

"use strict";

const namedNumbers = new Map([["true", 1], ["false", 0], ["nan", NaN], ["inf", Infinity], ["+inf", Infinity], ["-inf", -Infinity]]);

// One number of a cell: "1.5", "-2e-3", "inf", "true".
function readNumber(text, type) {
    const word = text.trim().replace("−", "-").toLowerCase();
    const value = namedNumbers.get(word) ?? (word === "" ? NaN : Number(word));
    if (Number.isNaN(value) && word !== "nan") {
        throw new Error(`${quotedText(text.trim())} is no number`);
    }
    if (type === "integer" && !Number.isInteger(value)) {
        throw new Error(`${word} is not whole, expected a whole number`);
    }
    if (type === "boolean" && value !== 0 && value !== 1) {
        throw new Error(`${word} is neither true nor false`);
    }
    return value;
}

// What stands in "array([1, 2], dtype=float32)"; any other text as it is. No pattern looks for its beginning at each blank.
function withoutCall(text) {
    const call = /^(?:np\.|numpy\.)?array\s*\(/.exec(text);
    if (!call) {
        return text;
    }
    const end = text.lastIndexOf("]") + 1;
    if (!/^\s*,?\s*(?:dtype\s*=[^)]*)?\)?$/.test(text.slice(end))) {
        throw new Error(`there is more after the last bracket: ${quotedText(text.slice(end).trim())}`);
    }
    return text.slice(call[0].length, end).trim();
}

// "array([[1, 2], [3, 4]])", "[[1 2]\n [3 4]]" or rows of a spreadsheet: {shape, values}.
function readArray(text, type) {
    const list = withoutCall(text.trim());
    if (!list.startsWith("[")) {
        const rows = list.split(/\n+/).map(row => row.trim().split(/\s*[,;\t]\s*|\s+/).filter(cell => cell !== ""));
        const widths = new Set(rows.map(row => row.length));
        if (widths.size > 1) {
            throw new Error(`the rows have ${[...widths].join(" and ")} numbers, expected as many in each`);
        }
        const values = rows.flat().map(cell => readNumber(cell, type));
        return { shape: rows.length === 1 ? [values.length] : [rows.length, rows[0].length], values };
    }
    const words = list.match(/[[\]]|[^\s,[\]]+/g);
    let at = 0;
    const values = [];
    const deepest = 8;
    function part(depth = 0) {
        if (depth > deepest) {
            throw new Error(`more than ${deepest} brackets stand in each other`);
        }
        if (words[at] !== "[") {
            if (at >= words.length || words[at] === "]") {
                throw new Error("a bracket is not closed, or a list is empty");
            }
            values.push(readNumber(words[at++], type));
            return [];
        }
        at++;
        const shapes = [];
        while (at < words.length && words[at] !== "]") {
            shapes.push(part(depth + 1));
        }
        if (words[at++] !== "]" || shapes.length === 0) {
            throw new Error("a bracket is not closed, or a list is empty");
        }
        if (new Set(shapes.map(String)).size > 1) {
            throw new Error("the rows have different lengths");
        }
        return [shapes.length, ...shapes[0]];
    }
    const shape = part();
    if (at < words.length) {
        throw new Error(`there is more after the last bracket: ${quotedText(words.slice(at, at + 3).join(" "))}`);
    }
    return { shape, values };
}
