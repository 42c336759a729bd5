// Reads numbers that a reader typed or pasted: NumPy's, a spreadsheet's, or a list.

"use strict";

// One number of a cell: "1.5", "-2e-3", "inf", "true".
function readNumber(text, type) {
    const word = text.trim().replace("−", "-").toLowerCase();
    const named = { true: 1, false: 0, nan: NaN, inf: Infinity, "+inf": Infinity, "-inf": -Infinity };
    const value = word in named ? named[word] : word === "" ? undefined : Number(word);
    if (value === undefined || (Number.isNaN(value) && word !== "nan")) {
        throw new Error(`${JSON.stringify(text.trim())} is no number`);
    }
    if (type === "integer" && !Number.isInteger(value)) {
        throw new Error(`${word} is not whole, expected a whole number`);
    }
    if (type === "boolean" && value !== 0 && value !== 1) {
        throw new Error(`${word} is neither true nor false`);
    }
    return value;
}

// "array([[1, 2], [3, 4]])", "[[1 2]\n [3 4]]" or rows of a spreadsheet: {shape, values}.
function readArray(text, type) {
    const list = text.replace(/^\s*(?:np\.|numpy\.)?array\s*\(/, "").replace(/,?\s*(?:dtype\s*=[^)]*)?\)\s*$/, "").trim();
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
    function part() {
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
            shapes.push(part());
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
        throw new Error(`there is more after the last bracket: ${words.slice(at, at + 3).join(" ")}`);
    }
    return { shape, values };
}
