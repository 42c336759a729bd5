// Checks a function by vectors, in node and in the browser: node check.mjs CASES mine.mjs [TYPE]
// mine.mjs exports functions, each called with ({inputs, weights, parameters}), arrays as {shape, values}; one returns an object
// of arrays by the outputs' names, or null where it does not compute the case. In a page: check(files, mine, "float32").
// In a case of several calls it is also given state, undefined at the first call of a request, and what it returns has the next one.
const number = (value) => Number(value); // also of "NaN", "Infinity" and "-Infinity"
const types = ["float64", "float32", "float16", "bfloat16"];
const sizeOf = (shape) => shape.reduce((product, one) => product * one, 1);
const own = (object, name) => (Object.hasOwn(object ?? {}, name) ? object[name] : undefined); // and no "constructor" of all objects

function expect(holds, what) {
    if (!holds) throw new Error(what);
}

const isNumber = (value) => Number.isFinite(value) || ["NaN", "Infinity", "-Infinity"].includes(value);
const isCount = (value) => Number.isInteger(value) && value >= 0;

function expectArray([name, { shape, values, multiplier, offset }]) {
    expect(shape.length <= 4 && shape.every((size) => isCount(size) && size > 0), `${name} has the shape ${JSON.stringify(shape)}`);
    expect(values ? values.length === sizeOf(shape) && values.every(isNumber) : isCount(multiplier) && isCount(offset) && sizeOf(shape) < 1e7,
        `${name} has not a number for each place of ${JSON.stringify(shape)}`);
}

function callOf(name) { // 2 of calls.2.output; -1 where it is of no call
    if (!name.startsWith("calls.")) return -1;
    const [, number] = /^calls\.(0|[1-9]\d{0,3})\../.exec(name) ?? [];
    expect(number, `${name} names no call, expected such as calls.0.output`);
    return Number(number);
}

function expectCalls({ requests = [], rows, inputs, outputs }) { // each has inputs and outputs, and there is no other
    const count = requests.reduce((sum, calls) => sum + calls, 0), isRight = requests.every((calls) => isCount(calls) && calls > 0);
    expect(isRight && count <= 1000, `requests is ${JSON.stringify(requests)}, expected how many calls each has, 1000 in all at most`);
    expect(!count || !rows, "it has several calls, and rows of an output");
    for (const [part, entries] of Object.entries({ inputs, outputs })) {
        const calls = new Set(Object.keys(entries).map(callOf)), own = [...calls].filter((call) => call >= 0);
        expect(own.length === count && own.every((call) => call < count), `a call has no ${part}, or ${part} are of a call that requests has not`);
        expect(!count || part === "inputs" || !calls.has(-1), "an output is of no call");
    }
}

function expectCase({ id, inputs, weights, outputs, rows, requests, accepted, wrong }) { // one that a program of zeros can't pass
    expect(typeof id === "string", "a case has no id");
    expect(Object.keys(inputs).length && Object.keys(outputs).length, "it has no inputs, or no outputs");
    expect(requests === undefined || requests.length, "requests has no calls");
    expectCalls({ requests, rows, inputs, outputs });
    [inputs, weights ?? {}, outputs].flatMap(Object.entries).forEach(expectArray);
    expect(!rows || rows.every(isCount), "rows has one that no result has");
    for (const [name, { shape, tolerance }] of Object.entries(outputs)) {
        expect(types.every((type) => Number.isFinite(tolerance[type]) && tolerance[type] > 0), `${name} has a tolerance that is not above 0`);
        expect(!rows || rows.length === shape.at(-2), `${name} has not a row for each of rows`);
    }
    for (const [other, all] of Object.entries({ ...accepted, ...wrong })) {
        const given = Object.entries(all).filter(([name]) => name !== "formulas");
        expect(given.length && given.every(([name, values]) => values.length === sizeOf(own(outputs, name).shape) && values.every(isNumber)),
            `${other} has not the numbers of the outputs`);
    }
}

export function expectFile(file, path = "a file") { // throws an Error where nothing can be checked by it
    let where = "";
    try {
        expect(file.schema === "vectors_schema_1" && typeof file.function === "string" && file.groups.length, "it is none of vectors_schema_1");
        for (const one of file.groups.flatMap(({ cases }) => cases)) {
            where = `${one.id}: `;
            expectCase(one);
        }
    } catch (error) {
        throw new Error(`${path} is no file of vectors, expected one as vectors/schema.json says: ${where}${error.message}`);
    }
}

function array({ shape, values, multiplier, offset }) {
    return { shape, values: values ? values.map(number) : Array.from({ length: sizeOf(shape) }, (_, i) => ((multiplier * i + offset) % 251 - 125) / 64) };
}

const arrays = (entries) => Object.fromEntries(Object.entries(entries ?? {}).map(([name, entry]) => [name, array(entry)]));
const isNear = (mine, right, tolerance) => mine.length === right.length &&
    right.every((value, i) => mine[i] === value || (Number.isNaN(mine[i]) && Number.isNaN(value)) || Math.abs(mine[i] - value) <= tolerance);

function named(one, mine, type, which) { // the mistakes, or the conventions, whose results these are
    const isOf = (outputs, [name, right]) => {
        const tolerance = right.tolerance[type];
        if (!own(outputs, name)) return isNear(mine[name], right.values.map(number), tolerance);
        const numbers = outputs[name].map(number), largest = numbers.filter(Number.isFinite).reduce((most, one) => Math.max(most, Math.abs(one)), 1);
        return isNear(mine[name], numbers, Math.max(tolerance, 1e-6) * largest);
    };
    return Object.keys(one[which] ?? {}).filter((name) => Object.entries(one.outputs).every((output) => isOf(one[which][name], output)));
}

function failure(one, found, type) { // null where it is right
    const results = {};
    for (const [name, right] of Object.entries(one.outputs)) {
        const given = own(found, name), shape = Array.from(given?.shape ?? []), width = shape.at(-1);
        if (!given) return `there is no ${name} among the results`;
        const values = Array.from(given.values, number);
        const whole = right.shape.map((size, axis) => (one.rows && axis === right.shape.length - 2 ? shape.at(-2) : size));
        const isWhole = `${shape}` === `${whole}` && values.length === sizeOf(shape) && (!one.rows || one.rows.every((row) => row < shape.at(-2)));
        if (!isWhole) return `${name} has the shape [${shape}] and ${values.length} numbers, expected [${right.shape}]`;
        results[name] = one.rows ? one.rows.flatMap((row) => values.slice(row * width, (row + 1) * width)) : values;
    }
    const isRight = Object.entries(one.outputs).every(([name, right]) => isNear(results[name], right.values.map(number), right.tolerance[type]));
    if (isRight || named(one, results, type, "accepted").length) return null;
    const names = named(one, results, type, "wrong").join(" or ");
    return names ? `your numbers are those of ${names}` : `${furthest(one, results, type)}; no mistake that this case has gives these numbers`;
}

function furthest(one, results, type) { // where the results are furthest out, in tolerances
    let most = -1, text = "";
    for (const [name, { shape, values, tolerance }] of Object.entries(one.outputs)) values.map(number).forEach((right, place) => {
        const found = results[name][place], distance = Math.abs(found - right) / tolerance[type];
        const off = Object.is(found, right) ? 0 : Number.isNaN(distance) ? Infinity : distance;
        if (off <= most) return;
        const index = shape.map((size, axis) => Math.floor(place / sizeOf(shape.slice(axis + 1))) % size);
        if (one.rows) index[index.length - 2] = one.rows[index.at(-2)];
        [most, text] = [off, `${name}[${index.join(", ")}] is ${found}, expected ${right}`];
    });
    return text;
}

function ask(one, parameters, mine) { // the results by name; null where it does not compute the case
    const weights = () => arrays(one.weights);
    if (!one.requests) return mine({ inputs: arrays(one.inputs), weights: weights(), parameters });
    const results = {};
    let call = 0;
    for (const calls of one.requests) for (let state, end = call + calls; call < end; call++) {
        const scope = `calls.${call}.`, ofCall = (entries) => Object.entries(entries).filter(([name]) => name.startsWith(scope));
        const short = (entries) => ofCall(entries).map(([name, entry]) => [name.slice(scope.length), entry]);
        const shared = Object.entries(one.inputs).filter(([name]) => callOf(name) < 0);
        const found = mine({ inputs: arrays(Object.fromEntries([...shared, ...short(one.inputs)])), weights: weights(), parameters, state });
        if (!found) return null;
        for (const [name] of short(one.outputs)) results[scope + name] = own(found, name);
        state = found.state;
    }
    return results;
}

export function check(files, mine, type = "float64") { // the lines of a report
    expect(types.includes(type), `${type} is none of ${types.join(", ")}`);
    files.forEach((file) => expectFile(file));
    const lines = [];
    let count = 0;
    for (const file of files) for (const group of file.groups) for (const one of group.cases) {
        const function_ = own(mine, file.function), found = function_ && ask(one, group.parameters, function_);
        if (!found) continue;
        count += 1;
        const why = failure(one, found, type);
        if (why) lines.push(`failed ${one.id}: ${why}`);
    }
    return [...lines, `${count - lines.length} of ${count} cases passed`];
}

if (globalThis.process?.argv[1]?.endsWith("check.mjs")) {
    const { readdirSync, readFileSync } = await import("node:fs"), { resolve } = await import("node:path");
    const [cases, mine, type] = process.argv.slice(2), names = readdirSync(cases).filter((name) => name.endsWith(".json")).sort();
    const read = (path) => {
        try {
            const file = JSON.parse(readFileSync(path));
            expectFile(file, path);
            return file;
        } catch (error) {
            console.error(error.message.includes(path) ? error.message : `${path} is no file of vectors: ${error.message}`);
            process.exit(2);
        }
    };
    const lines = check(names.map((name) => read(`${cases}/${name}`)), await import(resolve(mine)), type);
    console.log(lines.join("\n"));
    process.exitCode = lines.length > 1 || lines[0].startsWith("0 of") ? 1 : 0;
}
