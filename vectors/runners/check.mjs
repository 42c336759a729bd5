// Checks a function by vectors, in node and in the browser: node check.mjs CASES mine.mjs [TYPE]
// mine.mjs exports functions, each called with ({inputs, weights, parameters}), arrays as {shape, values}; one returns an object
// of arrays by the outputs' names, or null where it does not compute the case. In a page: check(files, mine, "float32").
const number = (value) => Number(value); // also of "NaN", "Infinity" and "-Infinity"

function array(entry) {
    const size = entry.shape.reduce((product, one) => product * one, 1), { multiplier, offset } = entry;
    const values = multiplier ? Array.from({ length: size }, (_, i) => ((multiplier * i + offset) % 251 - 125) / 64) : entry.values.map(number);
    return { shape: entry.shape, values };
}

const arrays = (entries) => Object.fromEntries(Object.entries(entries ?? {}).map(([name, entry]) => [name, array(entry)]));
const isNear = (mine, right, tolerance) => mine.length === right.length &&
    right.every((value, i) => mine[i] === value || (Number.isNaN(mine[i]) && Number.isNaN(value)) || Math.abs(mine[i] - value) <= tolerance);

function named(one, mine, type, which) { // the mistakes, or the conventions, whose results these are
    const isOf = (outputs, [name, right]) => {
        const tolerance = right.tolerance[type];
        if (!(name in outputs)) return isNear(mine[name], right.values.map(number), tolerance);
        const numbers = outputs[name].map(number), largest = Math.max(1, ...numbers.filter(Number.isFinite).map(Math.abs));
        return isNear(mine[name], numbers, Math.max(tolerance, 1e-6) * largest);
    };
    return Object.keys(one[which] ?? {}).filter((name) => Object.entries(one.outputs).every((output) => isOf(one[which][name], output)));
}

export function check(files, mine, type = "float64") { // the lines of a report
    const lines = [];
    let count = 0;
    for (const file of files) for (const group of file.groups) for (const one of group.cases) {
        const found = mine[file.function]?.({ inputs: arrays(one.inputs), weights: arrays(one.weights), parameters: group.parameters });
        if (!found) continue;
        const width = (shape) => shape[shape.length - 1], rows = ({ shape, values }) =>
            one.rows ? one.rows.flatMap((row) => Array.from(values).slice(row * width(shape), (row + 1) * width(shape))) : Array.from(values);
        const results = Object.fromEntries(Object.keys(one.outputs).map((name) => [name, rows(found[name])]));
        count += 1;
        const isRight = Object.entries(one.outputs).every(([name, right]) => isNear(results[name], right.values.map(number), right.tolerance[type]));
        if (isRight || named(one, results, type, "accepted").length) continue;
        const names = named(one, results, type, "wrong").join(" or ");
        lines.push(`failed ${one.id}: ${names ? `your numbers are those of ${names}` : "no mistake that this case has gives these numbers"}`);
    }
    return [...lines, `${count - lines.length} of ${count} cases passed`];
}

if (globalThis.process?.argv[1]?.endsWith("check.mjs")) {
    const { readdirSync, readFileSync } = await import("node:fs"), { resolve } = await import("node:path");
    const [cases, mine, type] = process.argv.slice(2), names = readdirSync(cases).filter((name) => name.endsWith(".json")).sort();
    const lines = check(names.map((name) => JSON.parse(readFileSync(`${cases}/${name}`))), await import(resolve(mine)), type);
    console.log(lines.join("\n"));
    process.exitCode = lines.length > 1 || lines[0].startsWith("0 of") ? 1 : 0;
}
