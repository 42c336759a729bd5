// Checks a function by vectors, in node and in the browser: node check.mjs CASES mine.mjs [TYPE]
// mine.mjs exports functions, each called with ({inputs, weights, parameters}), arrays as {shape, values}; one returns an object
// of arrays by the outputs' names, or null where it does not compute the case. In a page: check(files, mine, "float32").
// CASES is vectors/cases or vectors/kernels. Where the variable VECTORS_JUNIT names a file, a report for build servers is written to it.
// In a case of several calls it is also given state, undefined at the first call of a request, and what it returns has the next one.
const number = (value) => Number(value); // also of "NaN", "Infinity" and "-Infinity"
const types = ["float64", "float32", "float16", "bfloat16"];
const units = { float64: 2 ** -53, float32: 2 ** -24, float16: 2 ** -11, bfloat16: 2 ** -8 }; // the largest error of a rounding
const sizeOf = (shape) => shape.reduce((product, one) => product * one, 1);
const own = (object, name) => (Object.hasOwn(object ?? {}, name) ? object[name] : undefined); // and no "constructor" of all objects

function expect(holds, what) {
    if (!holds) throw new Error(what);
}

const isNumber = (value) => Number.isFinite(value) || ["NaN", "Infinity", "-Infinity"].includes(value);
const isCount = (value) => Number.isInteger(value) && value >= 0;

function expectArray([name, { shape, values, multiplier, offset, rule }]) {
    expect(shape.length <= 5 && shape.every((size) => isCount(size) && size > 0), `${name} has the shape ${JSON.stringify(shape)}`);
    const isByRule = sizeOf(shape) < 1e7 && (isCount(rule) || (isCount(multiplier) && isCount(offset)));
    expect(values ? values.length === sizeOf(shape) && values.every(isNumber) : isByRule,
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

function expectKernel({ id, inputs, outputs, accepted, wrong }) { // the same of a case that keeps some numbers and sums of large results
    expect(typeof id === "string", "a case has no id");
    expect(Object.keys(inputs).length && Object.keys(outputs).length, "it has no inputs, or no outputs");
    Object.entries(inputs).forEach(expectArray);
    for (const [name, { shape, places, block, values, scale, roundings, rough }] of Object.entries(outputs)) {
        const size = sizeOf(shape), isAbove = (one) => Number.isFinite(one) && one > 0;
        expect(shape.length && shape.length <= 5 && shape.every((one) => isCount(one) && one > 0) && size < 1e7, `${name} has the shape ${JSON.stringify(shape)}`);
        expect(isCount(block) && block > 0 && places.every((place) => isCount(place) && place < size), `${name} has places outside of it`);
        const count = places.length + Math.ceil(size / block);
        expect(values.length === count && scale.length === count && values.every(isNumber), `${name} has not a number for each place and sum`);
        expect(scale.every(isAbove) && types.every((type) => isAbove(roundings[type])), `${name} has a tolerance that is not above 0`);
        expect(["float16", "bfloat16"].every((type) => rough[type] >= 0), `${name} has no rough tolerance`);
        expect(values.some((value) => value !== 0 && value !== "NaN"), `${name} is zero`);
    }
    for (const [other, forms] of [accepted, wrong].flatMap(Object.entries)) {
        expect(forms.length && forms.every(({ form: _, ...parts }) => Object.keys(parts).length && Object.entries(parts).every(([name, { at, values }]) =>
            at.length && at.length === values.length && values.every(isNumber) && at.every((one) => isCount(one) && one < own(outputs, name).values.length))),
        `${other} has not the numbers of the outputs`);
    }
}

export function expectFile(file, path = "a file") { // throws an Error where nothing can be checked by it
    let where = "";
    try {
        expect(["vectors_schema_1", "vectors_kernels_1"].includes(file.schema) && typeof file.function === "string" && file.groups.length, "it is none of vectors_schema_1");
        for (const one of file.groups.flatMap(({ cases }) => cases)) {
            where = `${one.id}: `;
            (file.schema === "vectors_kernels_1" ? expectKernel : expectCase)(one);
        }
    } catch (error) {
        throw new Error(`${path} is no file of vectors, expected one as vectors/schema.json says: ${where}${error.message}`);
    }
}

function bitsByRule(seed, i) {
    let x = (Math.imul(i, 0x9E3779B1) + Math.imul(seed, 0x85EBCA6B)) >>> 0;
    x = Math.imul(x ^ (x >>> 16), 0x7FEB352D) >>> 0;
    x = Math.imul(x ^ (x >>> 15), 0x846CA68B) >>> 0;
    return (x ^ (x >>> 16)) >>> 0;
}

function array({ shape, values, multiplier, offset, rule }) {
    if (rule !== undefined) return { shape, values: Array.from({ length: sizeOf(shape) }, (_, i) => ((bitsByRule(rule, i) % 65) - 32) / 16) };
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

function kept(values, { places, block }) { // the numbers at some places, and sums of blocks with signs by the rule
    const sums = new Array(Math.ceil(values.length / block)).fill(0);
    values.forEach((value, i) => { sums[Math.floor(i / block)] += bitsByRule(0, i) & 1 ? -value : value; });
    return [...places.map((place) => values[place]), ...sums];
}

function off(found, right, scale, type) { // in roundings
    const distance = Math.abs(found - right) / (units[type] * scale);
    return found === right || (Number.isNaN(found) && Number.isNaN(right)) ? 0 : Number.isNaN(distance) ? Infinity : distance;
}

const largest = (numbers) => numbers.filter(Number.isFinite).reduce((most, one) => Math.max(most, Math.abs(one)), 0);

function isForm(one, mine, type, { form: _, ...parts }) { // the numbers that it has, to seven digits
    return Object.entries(parts).every(([name, { at, values }]) => {
        const right = one.outputs[name], wrong = values.map(number), growth = Math.max(1, largest(wrong) / Math.max(largest(at.map((i) => number(right.values[i]))), 1e-300));
        return wrong.every((value, i) => isNear([mine[name][at[i]]], [value],
            Math.max(right.roundings[type] * units[type] * right.scale[at[i]] * growth, 1e-6 * Math.abs(value) || 0)));
    });
}

function indexOf(shape, place) {
    return shape.map((size, axis) => Math.floor(place / sizeOf(shape.slice(axis + 1))) % size).join(", ");
}

function kernelFailure({ outputs, accepted, wrong }, results, type) { // null where it is right
    const mine = {}, all = [], one = { outputs };
    for (const [name, right] of Object.entries(outputs)) {
        mine[name] = kept(results[name], right);
        mine[name].forEach((value, at) => all.push({ name, right, at, value, off: off(value, number(right.values[at]), right.scale[at], type) }));
    }
    const isRight = ({ name }) => all.every((each) => each.name !== name || each.off <= each.right.roundings[type]);
    const isAccepted = (form) => Object.keys(outputs).every((name) => isRight({ name }) || (own(form, name) && isForm(one, mine, type, { [name]: form[name] })));
    if (Object.keys(outputs).every((name) => isRight({ name })) || Object.values(accepted).flat().some(isAccepted)) return null;
    const names = Object.entries(wrong).map(([name, forms]) => [name, forms.find((form) => isForm(one, mine, type, form))]).filter(([, form]) => form);
    if (names.length) return `your numbers are those of ${names.map(([name, { form }]) => (form ? `${name} (${form})` : name)).join(" or ")}`;
    const { name, right, at, value, off: far } = all.reduce((most, each) => (each.off / each.right.roundings[type] > most.off / most.right.roundings[type] ? each : most));
    const begin = (at - right.places.length) * right.block, end = Math.min(begin + right.block, sizeOf(right.shape)) - 1, shown = (place) => `${name}[${indexOf(right.shape, place)}]`;
    const where = at < right.places.length ? shown(right.places[at]) : end > begin ? `the signed sum of ${shown(begin)} to ${shown(end)}` : shown(begin);
    const isRough = type.endsWith("float16") && all.every((each) => each.off <= Math.max(each.right.rough[type], each.right.roundings[type]));
    return `${where} is ${value}, expected ${right.values[at]}, ${far.toPrecision(3)} roundings off, ${right.roundings[type]} allowed; ` +
        (isRough ? `kept_in_short_type is as far off: sums or scores in ${type}` : "no mistake that this case has gives these numbers");
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
    if (Object.values(one.outputs).every(({ places }) => places)) return kernelFailure(one, results, type);
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
        const roundings = Math.abs(found - right) / (units[type] * Math.max(largest(values.map(number)), 1e-300));
        [most, text] = [off, `${name}[${index.join(", ")}] is ${found}, expected ${right}, ${roundings.toPrecision(3)} roundings off`];
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

export function check(files, mine, type = "float64", report = []) { // the lines of a report; in report what is said of each case
    expect(types.includes(type), `${type} is none of ${types.join(", ")}`);
    files.forEach((file) => expectFile(file));
    const lines = [];
    let count = 0;
    for (const file of files) for (const group of file.groups) for (const one of group.cases) {
        const function_ = own(mine, file.function), found = function_ && ask(one, group.parameters, function_);
        if (!found) continue;
        count += 1;
        const why = failure(one, found, type);
        report.push([one.id, why ?? ""]);
        if (why) lines.push(`failed ${one.id}: ${why}`);
    }
    return [...lines, `${count - lines.length} of ${count} cases passed`];
}

if (globalThis.process?.argv[1]?.endsWith("check.mjs")) {
    const { readdirSync, readFileSync, writeFileSync } = await import("node:fs"), { resolve } = await import("node:path");
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
    const report = [];
    const lines = check(names.map((name) => read(`${cases}/${name}`)), await import(resolve(mine)), type, report);
    const escape = (text) => text.replace(/[&<"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", '"': "&quot;" })[c]);
    const inside = report.map(([id, why]) => ` <testcase classname="${id.split("/")[0]}" name="${id}">${why && `<failure message="${escape(why)}"/>`}</testcase>\n`);
    const head = `<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="vectors" tests="${report.length}" failures="${lines.length - 1}">\n`;
    if (process.env.VECTORS_JUNIT) writeFileSync(process.env.VECTORS_JUNIT, `${head}${inside.join("")}</testsuite>\n`);
    console.log(lines.join("\n"));
    process.exitCode = lines.length > 1 || lines[0].startsWith("0 of") ? 1 : 0;
}
