'use strict';

// The arithmetic of one number, by the rules of attn/formula/explain.hpp: the text is what `attn explain` prints.
//
// As there, in three parts: a formula with the shapes of its values (Shaper), the tree of one cell's arithmetic
// (Arithmetic), and its text (Writer).

const UNIT = 2 ** -53; // the largest relative error of one operation
const SAFETY = 4; // how many times that two right computations may be apart
const MOST_SCALARS = 2 ** 21;
const TERMS = 8; // of a sum that are written, and of reasons and parts
const MOST_EXPLAINED = 1000;

/** What is wrong with a formula, and where. */
class FormulaError extends Error {
    static at(formula, tree, message) {
        const excerpt = formula.slice(0, 120).replace(/[\x00-\x1f\x7f]/g, '?') + (formula.length > 120 ? '...' : '');
        return new FormulaError(`"${excerpt}", character ${tree.at + 1}: ${message}`);
    }
}

// ---------------------------------------------------------------------------------------------------- shapes

const countOf = shape => shape.reduce((product, size) => product * size, 1);

function offsetOf(index, shape) {
    let offset = 0;
    for (let axis = 0; axis < shape.length; ++axis) offset = offset * shape[axis] + index[axis];
    return offset;
}

function indexAt(offset, shape) {
    const index = new Array(shape.length);
    for (let axis = shape.length; axis-- > 0;) {
        index[axis] = offset % shape[axis];
        offset = Math.floor(offset / shape[axis]);
    }
    return index;
}

const sameShape = (a, b) => a.length === b.length && a.every((size, axis) => size === b[axis]);
const shapeText = shape => `(${shape.join(', ')}${shape.length === 1 ? ',' : ''})`;
const bracketed = index => index.length === 0 ? '' : `[${index.join(',')}]`;

function broadcast(left, right) {
    const [longer, shorter] = left.length >= right.length ? [left, right] : [right, left];
    const both = longer.slice(), shift = longer.length - shorter.length;
    shorter.forEach((size, axis) => {
        if (both[shift + axis] !== size && both[shift + axis] !== 1 && size !== 1) {
            throw new Error(`the shapes ${shapeText(left)} and ${shapeText(right)} don't broadcast`);
        }
        if (both[shift + axis] === 1) both[shift + axis] = size;
    });
    return both;
}

/** The index of an operand that was broadcast, from the result's. */
const broadcastIndex = (index, shape) =>
    index.slice(index.length - shape.length).map((place, axis) => shape[axis] === 1 ? 0 : place);

const replaced = (index, axis, place) => index.map((own, i) => i === axis ? place : own);

// ---------------------------------------------------------------------------------------------------- numbers

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

const truthText = value => value !== 0 ? 'true' : 'false';

// A number and how far another right computation of it may be away: rules of running error analysis, to first order.
const exact = value => ({value, error: 0});
const resultOf = (value, inherited, roundings = 1) =>
    Number.isFinite(value) ? {value, error: inherited + roundings * UNIT * Math.abs(value)} : exact(value);
const times = (factor, error) => error === 0 ? 0 : Math.abs(factor) * error;
const sloped = (value, slope, x) => resultOf(value, times(slope, x.error), 4);

// For erf, whose terms cancel each other: whole multiples of 2 ** -240.
const FIXED_ONE = 1n << 240n;
const TWO_BY_ROOT_PI = 112837916709551257389615890312154517168810125865799771368817144342n * FIXED_ONE / 10n ** 65n;

/** Right to the last digit; up to 1e-9 the first term alone is. */
function erf(x) {
    if (!(Math.abs(x) < 6)) return Number.isNaN(x) ? NaN : Math.sign(x);
    if (Math.abs(x) < 1e-9) return x * Number(TWO_BY_ROOT_PI) / Number(FIXED_ONE);
    const scaled = BigInt(x * 2 ** 90) << 150n; // such a number has no bit below 2 ** -90
    const square = scaled * scaled / FIXED_ONE;
    let power = scaled, sum = 0n;
    for (let n = 0n; power !== 0n; ++n) {
        sum += power / (2n * n + 1n);
        power = -power * square / FIXED_ONE / (n + 1n);
    }
    return Number(sum * TWO_BY_ROOT_PI / FIXED_ONE) / Number(FIXED_ONE);
}

function sigmoid(x) {
    const decay = Math.exp(-Math.abs(x));
    return (x >= 0 ? 1 : decay) / (1 + decay);
}

const FUNCTIONS = new Map(Object.entries({
    exp: x => sloped(Math.exp(x.value), Math.exp(x.value), x),
    log: x => sloped(Math.log(x.value), 1 / x.value, x),
    sqrt: x => sloped(Math.sqrt(x.value), 0.5 / Math.sqrt(x.value), x),
    tanh: x => sloped(Math.tanh(x.value), 1 - Math.tanh(x.value) ** 2, x),
    sigmoid: x => sloped(sigmoid(x.value), sigmoid(x.value) * (1 - sigmoid(x.value)), x),
    relu: x => x.value < 0 ? {value: 0, error: x.error} : x,
    abs: x => ({value: Math.abs(x.value), error: x.error}),
    erf: x => sloped(erf(x.value), 2 / Math.sqrt(Math.PI) * Math.exp(-x.value * x.value), x),
    sin: x => sloped(Math.sin(x.value), 1, x),
    cos: x => sloped(Math.cos(x.value), 1, x),
    floor: x => exact(Math.floor(x.value)),
}));

/** As C has it: 1 to any power is 1, and 1 ** inf too. */
const power = (base, exponent) =>
    base === 1 || (base === -1 && Math.abs(exponent) === Infinity) ? 1 : Math.pow(base, exponent);

const OPERATORS = new Map(Object.entries({
    '+': (a, b) => resultOf(a.value + b.value, a.error + b.error),
    '-': (a, b) => resultOf(a.value - b.value, a.error + b.error),
    '*': (a, b) => resultOf(a.value * b.value, times(b.value, a.error) + times(a.value, b.error)),
    '/': (a, b) => resultOf(a.value / b.value, (a.error + times(a.value / b.value, b.error)) / Math.abs(b.value)),
    '**': (a, b) => {
        const value = power(a.value, b.value);
        const byBase = a.error === 0 ? 0 : Math.abs(b.value * power(a.value, b.value - 1)) * a.error;
        const byExponent = b.error === 0 ? 0 : Math.abs(value * Math.log(Math.abs(a.value))) * b.error;
        return resultOf(value, byBase + byExponent, 4);
    },
    '<': (a, b) => exact(Number(a.value < b.value)),
    '<=': (a, b) => exact(Number(a.value <= b.value)),
    '>': (a, b) => exact(Number(a.value > b.value)),
    '>=': (a, b) => exact(Number(a.value >= b.value)),
    '==': (a, b) => exact(Number(a.value === b.value)),
    '&': (a, b) => exact(Number(a.value !== 0 && b.value !== 0)),
}));

/** By how many tolerances a recorded number is off. */
function excess(recorded, recomputed, tolerance) {
    if (Number.isNaN(recorded) || Number.isNaN(recomputed)) {
        return Number.isNaN(recorded) && Number.isNaN(recomputed) ? 0 : Infinity;
    }
    if (!Number.isFinite(recorded) || !Number.isFinite(recomputed)) return recorded === recomputed ? 0 : Infinity;
    const distance = Math.abs(recorded - recomputed);
    return distance === 0 ? 0 : distance / tolerance;
}

// ---------------------------------------------------------------------------------------------------- a formula as text

const LOOSE_TO_TIGHT = ['comparison', 'both', 'sum', 'product', 'negation', 'power', 'atom'];
const [COMPARISON, BOTH, SUM, PRODUCT, NEGATION, POWER, ATOM] = LOOSE_TO_TIGHT.keys();

function bindingOfOperator(op) {
    if (op === '&') return BOTH;
    if (op === '+' || op === '-') return SUM;
    if (op === '*' || op === '/' || op === '@') return PRODUCT;
    return op === '**' ? POWER : COMPARISON;
}

function needsParentheses(op, operand, isRight) {
    const own = bindingOfOperator(op);
    if (own === POWER) return operand !== ATOM;
    return isRight || own === COMPARISON ? operand <= own : operand < own;
}

function bindingOfTree(tree) {
    if (tree.kind === 'binary') return bindingOfOperator(tree.text);
    return tree.kind === 'negated' ? NEGATION : ATOM;
}

const parenthesized = (tree, isNeeded) => isNeeded ? `(${treeText(tree)})` : treeText(tree);
const subjectText = tree => parenthesized(tree, bindingOfTree(tree) !== ATOM || tree.kind === 'number');

function subscriptText(subscript) {
    if (subscript.kind === 'new_axis') return 'None';
    if (subscript.kind === 'ellipsis') return '...';
    if (subscript.kind === 'index') return treeText(subscript.index);
    const part = given => given ? treeText(given) : '';
    return `${part(subscript.start)}:${part(subscript.stop)}${subscript.step ? ':' + part(subscript.step) : ''}`;
}

/** A formula as text again, with no more parentheses than it needs. */
function treeText(tree) {
    switch (tree.kind) {
    case 'number': return tree.number;
    case 'name': return tree.text;
    case 'negated': return '-' + parenthesized(tree.operands[0], bindingOfTree(tree.operands[0]) <= NEGATION);
    case 'binary': {
        const [left, right] = tree.operands;
        return parenthesized(left, needsParentheses(tree.text, bindingOfTree(left), false)) + ` ${tree.text} ` +
            parenthesized(right, needsParentheses(tree.text, bindingOfTree(right), true));
    }
    case 'call': {
        const keywords = (tree.keywords || []).map(([name, value]) => `${name}=${treeText(value)}`);
        return `${tree.text}(${[...(tree.operands || []).map(treeText), ...keywords].join(', ')})`;
    }
    case 'transposed': return subjectText(tree.operands[0]) + '.T';
    case 'size': return `${subjectText(tree.operands[0])}.shape[${treeText(tree.operands[1])}]`;
    default: return `${subjectText(tree.operands[0])}[${tree.subscripts.map(subscriptText).join(', ')}]`;
    }
}

const cellOfTreeText = (tree, index) => index.length === 0 ? treeText(tree) : subjectText(tree) + bracketed(index);

// ---------------------------------------------------------------------------------------------------- shapes of a formula

/** Works out the shapes of a formula without its values. */
class Shaper {
    /**
     * @param formula   its text, for messages
     * @param lookup    the tensor that a name means: {shape, type, values(), step}, or undefined
     * @param numberOf  the value of a shaped scalar
     */
    constructor(formula, lookup, numberOf) {
        this.formula = formula;
        this.lookup = lookup;
        this.numberOf = numberOf;
        this.ids = 0;
    }

    fail(tree, message) {
        throw FormulaError.at(this.formula, tree, message);
    }

    shaped(tree) {
        try {
            const result = {id: this.ids++, tree, shape: [], truth: false, operands: [], operation: tree.kind};
            this.fill(result);
            if (!(countOf(result.shape) <= Number.MAX_SAFE_INTEGER)) throw new Error('is too large');
            return result;
        } catch (error) {
            if (error instanceof FormulaError) throw error;
            return this.fail(tree, error.message);
        }
    }

    operand(result, i) {
        const operand = this.shaped(result.tree.operands[i]);
        result.operands.push(operand);
        return operand;
    }

    fill(result) {
        const tree = result.tree;
        switch (tree.kind) {
        case 'number':
            result.number = tree.number === 'inf' ? Infinity : Number(tree.number);
            break;
        case 'name':
            result.tensor = this.lookup(tree.text);
            if (!result.tensor) throw new Error(`no earlier step is called ${tree.text}`);
            result.shape = result.tensor.shape;
            result.truth = result.tensor.type === 'boolean';
            break;
        case 'negated':
            result.shape = this.operand(result, 0).shape;
            break;
        case 'binary':
            this.binary(result);
            break;
        case 'transposed': {
            const x = this.operand(result, 0), shape = x.shape.slice(), rank = shape.length;
            if (rank > 1) [shape[rank - 1], shape[rank - 2]] = [shape[rank - 2], shape[rank - 1]];
            result.shape = shape;
            result.truth = x.truth;
            break;
        }
        case 'size': {
            const shape = this.operand(result, 0).shape;
            result.number = shape[this.axisOf(tree.operands[1], shape.length)];
            break;
        }
        case 'indexed':
            this.subscripted(result);
            break;
        default:
            this.called(result);
        }
    }

    binary(result) {
        const op = result.tree.text, left = this.operand(result, 0), right = this.operand(result, 1);
        if (op === '@') {
            result.operation = 'matmul';
            result.shape = Shaper.matmulShape(left.shape, right.shape);
            return;
        }
        if (op === '&' && !(left.truth && right.truth)) {
            throw new Error('& wants what is true or false on both sides, such as (a < b) & (c < d)');
        }
        result.shape = broadcast(left.shape, right.shape);
        result.truth = ['<', '<=', '>', '>=', '==', '&'].includes(op);
    }

    static matmulShape(left, right) {
        if (left.length === 0 || right.length === 0) throw new Error('@ wants vectors or matrices, not a single number');
        const isRow = left.length === 1, isColumn = right.length === 1;
        if (left.at(-1) !== right.at(isColumn ? -1 : -2)) {
            throw new Error(`the shapes ${shapeText(left)} and ${shapeText(right)} don't fit @`);
        }
        const shape = broadcast(left.slice(0, isRow ? -1 : -2), right.slice(0, isColumn ? -1 : -2));
        if (!isRow) shape.push(left.at(-2));
        if (!isColumn) shape.push(right.at(-1));
        return shape;
    }

    whole(tree) {
        const scalar = this.shaped(tree), value = scalar.shape.length === 0 ? this.numberOf(scalar) : NaN;
        if (!(value === Math.trunc(value) && Math.abs(value) <= 1e15)) this.fail(tree, 'expected a whole number');
        return value;
    }

    count(tree) {
        const value = this.whole(tree);
        if (value < 0) this.fail(tree, 'expected a whole number from 0');
        return value;
    }

    axisOf(tree, rank) {
        const axis = this.whole(tree);
        if (axis < -rank || axis >= rank) this.fail(tree, `there is no axis ${axis} in a tensor of ${rank}`);
        return axis < 0 ? axis + rank : axis;
    }

    keyword(tree, name) {
        const found = (tree.keywords || []).find(([given]) => given === name);
        return found && found[1];
    }

    axisOr(tree, rank, otherwise) {
        const axis = this.keyword(tree, 'axis');
        if (axis) return this.axisOf(axis, rank);
        if (otherwise === undefined) throw new Error(`${tree.text} must say along which axis: axis=0`);
        if (rank === 0) throw new Error(`${tree.text} wants an axis, not a single number`);
        return otherwise + rank;
    }

    expect(tree, count, keywords) {
        const given = (tree.operands || []).length;
        if (given !== count) throw new Error(`${tree.text} takes ${count} arguments, not ${given}`);
        for (const [name, value] of tree.keywords || []) {
            if (!keywords.includes(name)) this.fail(value, `${tree.text} takes no keyword ${name}`);
        }
    }

    subscripted(result) {
        const subscripts = result.tree.subscripts, x = this.operand(result, 0), shape = x.shape;
        if (subscripts.length === 1 && subscripts[0].kind === 'index') {
            const ids = this.shaped(subscripts[0].index);
            if (ids.shape.length > 0) {
                if (shape.length === 0) throw new Error('a single number has no rows to gather');
                result.operation = 'gathered';
                result.shape = [...ids.shape, ...shape.slice(1)];
                result.operands.push(ids);
                return;
            }
        }
        result.truth = x.truth;
        result.ranges = [];
        const ellipses = subscripts.filter(subscript => subscript.kind === 'ellipsis').length;
        if (ellipses > 1) throw new Error('only one ... can stand for the axes that are not written');
        const taken = subscripts.filter(({kind}) => kind === 'index' || kind === 'slice').length;
        let axis = 0, skipped = ellipses === 1 ? Math.max(shape.length - taken, 0) : 0;
        const all = length => ({kind: 'slice', start: 0, count: length, step: 1});
        for (const subscript of subscripts) {
            if (subscript.kind === 'new_axis') {
                result.ranges.push({kind: 'new_axis', start: 0, count: 1, step: 1});
            } else if (subscript.kind === 'ellipsis') {
                for (; skipped > 0; --skipped) result.ranges.push(all(shape[axis++]));
            } else {
                if (axis === shape.length) {
                    throw new Error(`more subscripts than the ${shape.length} axes of ${shapeText(shape)}`);
                }
                const length = shape[axis++];
                result.ranges.push(subscript.kind === 'index' ? this.index(subscript, length) : this.slice(subscript, length));
            }
        }
        while (axis < shape.length) result.ranges.push(all(shape[axis++]));
        result.shape = result.ranges.filter(range => range.kind !== 'index').map(range => range.count);
    }

    index(subscript, length) {
        const at = this.whole(subscript.index);
        if (at < -length || at >= length) this.fail(subscript.index, `there is no index ${at} on an axis of ${length}`);
        return {kind: 'index', start: at < 0 ? at + length : at, count: 1, step: 1};
    }

    slice(subscript, length) {
        const step = subscript.step ? this.whole(subscript.step) : 1;
        if (step === 0) this.fail(subscript.step, "a slice's step can't be 0");
        const lowest = step > 0 ? 0 : -1, highest = step > 0 ? length : length - 1;
        const bound = (given, otherwise) => {
            if (!given) return otherwise;
            const at = this.whole(given);
            return Math.min(Math.max(at < 0 ? at + length : at, lowest), highest);
        };
        const start = bound(subscript.start, step > 0 ? lowest : highest);
        const stop = bound(subscript.stop, step > 0 ? highest : lowest);
        const distance = step > 0 ? stop - start : start - stop;
        return {kind: 'slice', start, count: distance > 0 ? Math.ceil(distance / Math.abs(step)) : 0, step};
    }

    called(result) {
        const tree = result.tree, name = tree.text, given = (tree.operands || []).length;
        result.operation = name;
        switch (name) {
        case 'sum': case 'mean': case 'max': case 'min':
            this.reduce(result);
            break;
        case 'softmax':
            this.expect(tree, 1, ['axis']);
            result.shape = this.operand(result, 0).shape;
            result.axis = this.axisOr(tree, result.shape.length, -1);
            break;
        case 'where': {
            this.expect(tree, 3, []);
            const [condition, yes, no] = [0, 1, 2].map(i => this.operand(result, i));
            result.shape = broadcast(condition.shape, broadcast(yes.shape, no.shape));
            result.truth = yes.truth && no.truth;
            break;
        }
        case 'concat':
            this.concat(result);
            break;
        case 'repeat':
            this.expect(tree, 2, ['axis']);
            result.shape = this.operand(result, 0).shape.slice();
            result.count = this.count(tree.operands[1]);
            result.axis = this.axisOr(tree, result.shape.length);
            result.shape[result.axis] *= result.count;
            break;
        case 'interleave': case 'outer': {
            this.expect(tree, 2, []);
            const first = this.operand(result, 0).shape, second = this.operand(result, 1).shape;
            if (name === 'outer') {
                if (first.length !== 1 || second.length !== 1) throw new Error('outer wants two vectors');
                result.shape = [first[0], second[0]];
                break;
            }
            if (!sameShape(first, second) || first.length === 0) {
                throw new Error(`interleave: the shapes ${shapeText(first)} and ${shapeText(second)} differ`);
            }
            result.shape = replaced(first, first.length - 1, first.at(-1) * 2);
            break;
        }
        case 'diag': {
            this.expect(tree, 1, []);
            const shape = this.operand(result, 0).shape;
            if (shape.length !== 1) throw new Error(`diag wants a vector, not a tensor ${shapeText(shape)}`);
            result.shape = [shape[0], shape[0]];
            break;
        }
        case 'arange':
            this.expect(tree, 1, []);
            result.shape = [this.count(tree.operands[0])];
            break;
        case 'reshape': case 'permute':
            this.rearrange(result);
            break;
        default:
            this.expect(tree, 1, []);
            result.operation = 'function';
            result.shape = this.operand(result, 0).shape;
            if (!FUNCTIONS.has(name)) throw new Error(`there is no function ${name}`);
        }
    }

    reduce(result) {
        const tree = result.tree;
        this.expect(tree, 1, ['axis', 'keepdims']);
        const shape = this.operand(result, 0).shape, keep = this.keyword(tree, 'keepdims');
        if (keep && keep.text !== 'True' && keep.text !== 'False') this.fail(keep, 'expected True or False');
        const keeps = Boolean(keep) && keep.text === 'True', axis = this.keyword(tree, 'axis');
        if (axis) result.axis = this.axisOf(axis, shape.length);
        if (!axis) result.shape = keeps ? shape.map(() => 1) : [];
        else result.shape = keeps ? replaced(shape, result.axis, 1) : shape.filter((_, i) => i !== result.axis);
    }

    concat(result) {
        const tree = result.tree, count = (tree.operands || []).length;
        this.expect(tree, Math.max(count, 1), ['axis']);
        for (let i = 0; i < count; ++i) this.operand(result, i);
        const shape = result.operands[0].shape.slice();
        const axis = result.axis = this.axisOr(tree, shape.length);
        shape[axis] = 0;
        for (const part of result.operands) {
            if (part.shape.length !== shape.length || !sameShape(replaced(part.shape, axis, shape[axis]), shape)) {
                throw new Error(`concat: the shapes ${shapeText(result.operands[0].shape)} and ${shapeText(part.shape)} ` +
                    `differ elsewhere than along axis ${axis}`);
            }
            shape[axis] += part.shape[axis];
        }
        result.shape = shape;
    }

    rearrange(result) {
        const tree = result.tree;
        this.expect(tree, Math.max((tree.operands || []).length, 1), []);
        const x = this.operand(result, 0), shape = x.shape, isReshape = tree.text === 'reshape';
        const numbers = tree.operands.slice(1).map(each => isReshape ? this.count(each) : this.axisOf(each, shape.length));
        result.truth = x.truth;
        if (isReshape) {
            if (countOf(numbers) !== countOf(shape)) {
                throw new Error(`reshape: ${shapeText(shape)} doesn't have as many numbers as ${shapeText(numbers)}`);
            }
            result.shape = numbers;
            return;
        }
        if (!sameShape(numbers.slice().sort((a, b) => a - b), [...shape.keys()])) {
            throw new Error(`permute wants each of the ${shape.length} axes once`);
        }
        result.shape = numbers.map(axis => shape[axis]);
        result.order = numbers;
    }
}

// ---------------------------------------------------------------------------------------------------- one cell's arithmetic

const unwritten = (kind, text) => ({kind, text});
const TIMES = unwritten('binary', '*'), OVER = unwritten('binary', '/'), MINUS = unwritten('binary', '-');
const EXP = unwritten('call', 'exp');

/** A formula, ready to give the tree of arithmetic of any of its cells without computing the others. */
class Arithmetic {
    constructor(formula, tree, lookup) {
        this.formula = formula;
        this.made = new Map();
        this.exponentials = new Map();
        this.scalars = 0;
        const shaper = new Shaper(formula, lookup, scalar => this.cell(scalar, []).value);
        this.root = shaper.shaped(tree);
    }

    get shape() {
        return this.root.shape;
    }

    at(index) {
        return this.cell(this.root, index);
    }

    cell(shaped, index) {
        let cells = this.made.get(shaped.id);
        if (!cells) this.made.set(shaped.id, cells = new Map());
        const offset = offsetOf(index, shaped.shape), found = cells.get(offset);
        if (found) return found;
        try {
            const made = this.make(shaped, index);
            cells.set(offset, made);
            return made;
        } catch (error) {
            if (error instanceof FormulaError) throw error;
            throw FormulaError.at(this.formula, shaped.tree, error.message);
        }
    }

    make(shaped, index) {
        const operand = (i, at) => this.cell(shaped.operands[i], at);
        const spread = i => operand(i, broadcastIndex(index, shaped.operands[i].shape));
        switch (shaped.operation) {
        case 'number': return this.number(shaped, shaped.number);
        case 'arange': return this.number(shaped, index[0]);
        case 'size': return this.keep('size', shaped, exact(shaped.number));
        case 'name': {
            const offset = offsetOf(index, shaped.shape);
            return this.keep('cell', shaped, exact(Number(shaped.tensor.values()[offset])),
                {truth: shaped.truth, index, offset, tensor: shaped.tensor});
        }
        case 'negated': {
            const inner = operand(0, index);
            return this.keep('negated', shaped, OPERATORS.get('*')(exact(-1), inner), {operands: [inner]});
        }
        case 'binary': return this.binary(shaped, shaped.tree, spread(0), spread(1));
        case 'function': return this.function(shaped, shaped.tree, operand(0, index));
        case 'matmul': return this.matmul(shaped, index);
        case 'outer': return this.binary(shaped, TIMES, operand(0, [index[0]]), operand(1, [index[1]]));
        case 'softmax': return this.softmax(shaped, index);
        case 'sum': case 'mean': case 'max': case 'min': return this.reduced(shaped, index);
        case 'where': {
            const condition = spread(0);
            return this.noted(shaped, 'branch', spread(condition.value !== 0 ? 1 : 2), condition);
        }
        case 'gathered': return this.gathered(shaped, index);
        case 'diag':
            return index[0] === index[1] ? operand(0, [index[0]])
                : this.noted(shaped, 'off_diagonal', this.number(shaped, 0), null);
        default: return this.moved(shaped, index);
        }
    }

    keep(kind, shaped, {value, error}, more) {
        if (++this.scalars > MOST_SCALARS) throw new Error('takes more numbers than can be explained');
        return {kind, origin: shaped.tree, truth: false, value, error, operands: [], ...more};
    }

    number(shaped, value) {
        return this.keep('number', shaped, exact(value));
    }

    binary(shaped, op, left, right) {
        return this.keep('binary', shaped, OPERATORS.get(op.text)(left, right),
            {origin: op, truth: shaped.truth && op === shaped.tree, operands: [left, right]});
    }

    function(shaped, named, argument) {
        return this.keep('function', shaped, FUNCTIONS.get(named.text)(argument), {origin: named, operands: [argument]});
    }

    noted(shaped, note, operand, about, count = 0) {
        return this.keep('noted', shaped, operand, {note, truth: operand.truth, operands: [operand], about, count});
    }

    total(shaped, terms) {
        let value = 0, sizes = 0, errors = 0;
        for (const term of terms) {
            value += term.value;
            sizes += Math.abs(term.value);
            errors += term.error;
        }
        return this.keep('total', shaped, resultOf(value, errors + terms.length * UNIT * sizes, 0), {operands: terms});
    }

    /** What is a part of its own where it is in another sum: of two terms or more. */
    part(shaped, index, operand, terms) {
        return terms < 2 ? operand : this.keep('part', shaped, operand, {index, operands: [operand]});
    }

    matmul(shaped, index) {
        const [left, right] = shaped.operands, isRow = left.shape.length === 1, isColumn = right.shape.length === 1;
        const stack = index.slice();
        const column = isColumn ? [] : [stack.pop()], row = isRow ? [] : [stack.pop()];
        const leftStack = isRow ? [] : broadcastIndex(stack, left.shape.slice(0, -2));
        const rightStack = isColumn ? [] : broadcastIndex(stack, right.shape.slice(0, -2));
        const terms = [];
        for (let inner = 0; inner < left.shape.at(-1); ++inner) {
            terms.push(this.binary(shaped, TIMES, this.cell(left, [...leftStack, ...row, inner]),
                this.cell(right, [...rightStack, inner, ...column])));
        }
        return this.part(shaped, index, this.total(shaped, terms), terms.length);
    }

    /** The cells of an operand that a cell of a reduction is of. */
    line(shaped, index) {
        const x = shaped.operands[0], cells = [];
        if (shaped.axis === undefined) {
            const count = countOf(x.shape);
            for (let offset = 0; offset < count; ++offset) cells.push(this.cell(x, indexAt(offset, x.shape)));
            return cells;
        }
        const at = index.slice();
        if (at.length < x.shape.length) at.splice(shaped.axis, 0, 0);
        for (let along = 0; along < x.shape[shaped.axis]; ++along) cells.push(this.cell(x, replaced(at, shaped.axis, along)));
        return cells;
    }

    reduced(shaped, index) {
        const cells = this.line(shaped, index), name = shaped.operation;
        if (name === 'max' || name === 'min') return this.extreme(shaped, cells, name === 'max');
        const sum = this.total(shaped, cells);
        return this.part(shaped, index,
            name === 'sum' ? sum : this.binary(shaped, OVER, sum, this.number(shaped, cells.length)), cells.length);
    }

    extreme(shaped, cells, isLargest) {
        if (cells.length === 0) return this.number(shaped, isLargest ? -Infinity : Infinity);
        let best = cells[0], error = 0;
        for (const next of cells) {
            error = Math.max(error, next.error);
            if (!Number.isNaN(best.value) &&
                (Number.isNaN(next.value) || (isLargest ? next.value > best.value : next.value < best.value))) best = next;
        }
        const chosen = this.noted(shaped, isLargest ? 'largest' : 'smallest', best, best, cells.length);
        chosen.error = Number.isFinite(chosen.value) ? error : 0;
        return chosen;
    }

    softmax(shaped, index) {
        const start = replaced(index, shaped.axis, 0), key = `${shaped.id}:${offsetOf(start, shaped.shape)}`;
        let all = this.exponentials.get(key);
        if (!all) {
            const line = this.line(shaped, start);
            all = {largest: {...this.extreme(shaped, line, true), error: 0}, cells: [], sum: null};
            if (all.largest.value !== -Infinity) {
                all.cells = line.map(x => this.function(shaped, EXP, this.binary(shaped, MINUS, x, all.largest)));
                all.sum = this.total(shaped, all.cells);
            }
            this.exponentials.set(key, all);
        }
        if (!all.sum) return this.noted(shaped, 'all_forbidden', this.number(shaped, 0), all.largest);
        return this.part(shaped, index, this.binary(shaped, OVER, all.cells[index[shaped.axis]], all.sum), all.cells.length);
    }

    gathered(shaped, index) {
        const [table, ids] = shaped.operands, split = ids.shape.length;
        const id = this.cell(ids, index.slice(0, split)), row = id.value;
        if (!(row >= 0 && row < table.shape[0]) || row !== Math.trunc(row)) {
            throw new Error(`there is no row ${exactText(row)} in a table ${shapeText(table.shape)}`);
        }
        return this.noted(shaped, 'row', this.cell(table, [row, ...index.slice(split)]), id);
    }

    /** The cell that an operation takes which only moves numbers. */
    moved(shaped, index) {
        const x = shaped.operands[0], at = index.slice(), last = index.length - 1;
        switch (shaped.operation) {
        case 'transposed':
            if (last > 0) [at[last], at[last - 1]] = [at[last - 1], at[last]];
            return this.cell(x, at);
        case 'permute':
            shaped.order.forEach((axis, i) => { at[axis] = index[i]; });
            return this.cell(x, at);
        case 'reshape':
            return this.cell(x, indexAt(offsetOf(index, shaped.shape), x.shape));
        case 'repeat':
            at[shaped.axis] = Math.floor(at[shaped.axis] / shaped.count);
            return this.cell(x, at);
        case 'interleave':
            at[last] = Math.floor(at[last] / 2);
            return this.cell(shaped.operands[index[last] % 2], at);
        case 'concat': {
            let part = 0;
            while (at[shaped.axis] >= shaped.operands[part].shape[shaped.axis]) {
                at[shaped.axis] -= shaped.operands[part++].shape[shaped.axis];
            }
            return this.cell(shaped.operands[part], at);
        }
        default: {
            const from = [];
            let axis = 0;
            for (const range of shaped.ranges) {
                if (range.kind === 'index') from.push(range.start);
                if (range.kind === 'slice') from.push(range.start + range.step * at[axis]);
                if (range.kind !== 'index') ++axis;
            }
            return this.cell(x, from);
        }
        }
    }
}

// ---------------------------------------------------------------------------------------------------- its text

const isSoftmax = part => part.origin.kind === 'call' && part.origin.text === 'softmax';
const negative = (text, isFirst) => isFirst ? text : `(${text})`;

/** Which terms of a sum are written: the largest by size, the earlier of two equals. */
function shownTerms(terms) {
    const size = i => Number.isNaN(terms[i].value) ? Infinity : Math.abs(terms[i].value);
    const isNaNumber = i => Number(Number.isNaN(terms[i].value));
    const order = [...terms.keys()].sort((a, b) =>
        size(a) !== size(b) ? (size(a) > size(b) ? -1 : 1) : isNaNumber(b) - isNaNumber(a));
    return new Set(order.slice(0, TERMS));
}

/** Writes the arithmetic of one number with names and with numbers. */
class Writer {
    constructor() {
        this.names = true;
        this.written = new Set();
        this.notes = new Set();
    }

    withNames(scalar) {
        this.names = true;
        return this.text(scalar, {inSum: false, isFirst: true, isLogical: true});
    }

    withNumbers(scalar) {
        this.names = false;
        return this.text(scalar, {inSum: false, isFirst: true, isLogical: true});
    }

    number(value, place) {
        const text = exactText(value);
        return text.startsWith('-') ? negative(text, place.isFirst) : text;
    }

    text(scalar, place) {
        switch (scalar.kind) {
        case 'number':
            return this.number(scalar.value, place);
        case 'size':
            return this.names ? treeText(scalar.origin) : this.number(scalar.value, place);
        case 'cell':
            if (this.names) {
                this.written.add(scalar);
                return scalar.origin.text + bracketed(scalar.index);
            }
            return scalar.truth && place.isLogical ? truthText(scalar.value) : this.number(scalar.value, place);
        case 'negated': {
            const operand = scalar.operands[0], needed = this.binding(operand, place.inSum) <= NEGATION;
            const inner = this.text(operand, {inSum: place.inSum, isFirst: needed, isLogical: false});
            return negative(needed ? `-(${inner})` : `-${inner}`, place.isFirst);
        }
        case 'binary': {
            const op = scalar.origin.text, isTight = op === '*' || op === '**', inner = {...place, isLogical: op === '&'};
            const left = this.operand(scalar, false, inner);
            return left + (isTight ? op : ` ${op} `) + this.operand(scalar, true, inner);
        }
        case 'function':
            return `${scalar.origin.text}(${this.text(scalar.operands[0], {inSum: place.inSum, isFirst: true, isLogical: false})})`;
        case 'total':
            return this.total(scalar, place);
        case 'part':
            if (!place.inSum) return this.text(scalar.operands[0], {...place, inSum: isSoftmax(scalar)});
            if (this.names) {
                this.written.add(scalar);
                return cellOfTreeText(scalar.origin, scalar.index);
            }
            return this.number(scalar.value, place);
        default:
            if (this.names) this.notes.add(scalar);
            return this.text(scalar.operands[0], place);
        }
    }

    operand(binary, isRight, place) {
        const op = binary.origin.text, operand = binary.operands[isRight ? 1 : 0], {inSum, isLogical} = place;
        const binding = this.binding(operand, inSum);
        if (needsParentheses(op, binding, isRight)) {
            const inner = this.text(operand, {inSum, isFirst: true, isLogical});
            return inner.startsWith('(') && binding === NEGATION ? inner : `(${inner})`;
        }
        return this.text(operand, {inSum, isFirst: place.isFirst && !isRight && op !== '**', isLogical});
    }

    total(scalar, place) {
        const terms = scalar.operands;
        if (terms.length === 0) return '0';
        if (terms.length === 1) return this.text(terms[0], {...place, isLogical: false});
        const isShown = shownTerms(terms);
        let sum = '', rest = 0, others = 0;
        terms.forEach((each, i) => {
            if (!isShown.has(i)) {
                rest += each.value;
                ++others;
                return;
            }
            const needed = needsParentheses('+', this.binding(each, true), sum !== '');
            const isFirst = needed || (sum === '' && place.isFirst);
            const term = this.text(each, {inSum: true, isFirst, isLogical: false});
            sum += (sum === '' ? '' : ' + ') + (needed ? `(${term})` : term);
        });
        if (others === 0) return sum;
        if (this.names) return `${sum} + (${others} other term${others === 1 ? '' : 's'})`;
        return `${sum} + ${this.number(rest, {isFirst: false})}`;
    }

    binding(scalar, inSum) {
        switch (scalar.kind) {
        case 'negated': return NEGATION;
        case 'binary': return bindingOfOperator(scalar.origin.text);
        case 'total':
            if (scalar.operands.length === 1) return this.binding(scalar.operands[0], inSum);
            return scalar.operands.length === 0 ? ATOM : SUM;
        case 'part': return inSum ? ATOM : this.binding(scalar.operands[0], isSoftmax(scalar));
        case 'noted': return this.binding(scalar.operands[0], inSum);
        default: return ATOM;
        }
    }

    reasons() {
        this.names = true;
        const found = new Set();
        for (const noted of this.notes) { // a reason may have reasons, which follow
            if (found.size >= TERMS) break;
            const text = this.reason(noted);
            if (text !== '') found.add('since ' + text);
        }
        return [...found];
    }

    reason(noted) {
        const compact = {inSum: true, isFirst: true, isLogical: true}, about = noted.about;
        switch (noted.note) {
        case 'branch':
            return `${this.text(about, compact)} is ${truthText(about.value)}`;
        case 'largest': case 'smallest': {
            if (noted.count < 2) return '';
            const name = this.text(about, compact);
            return Number.isNaN(noted.value) ? `${name} is no number` : `${name} is the ${noted.note} of ${noted.count}`;
        }
        case 'row': {
            const name = this.text(about, compact), row = exactText(about.value);
            return name === row ? '' : `${name} is ${row}`;
        }
        case 'off_diagonal':
            return `${treeText(noted.origin)} is 0 off the diagonal`;
        default:
            return `${this.text(about.operands[0], compact)}, the largest, is -inf`;
        }
    }
}

/** Explains numbers of one run. */
class Explainer {
    /**
     * @param steps     {path, formula, tensor}, in order
     * @param formulas  the tree or the error of each formula
     */
    constructor(steps, formulas) {
        this.steps = steps;
        this.formulas = formulas;
        this.places = new Map(steps.map((step, i) => [step.path, i]));
        this.arithmetic = new Map();
    }

    /** The step that a name in a step's formula means; undefined where there is none. */
    resolve(place, name) {
        const scopes = this.steps[place].path.split('.').slice(0, -1);
        for (;; scopes.pop()) {
            const found = this.places.get([...scopes, name].join('.'));
            if (found !== undefined && found < place) return this.steps[found];
            if (scopes.length === 0) return undefined;
        }
    }

    arithmeticOf(place) {
        if (!this.arithmetic.has(place)) {
            const {formula} = this.steps[place], {tree, error} = this.formulas.get(formula);
            if (error) throw new FormulaError(error);
            const lookup = name => {
                const step = this.resolve(place, name);
                return step && step.tensor;
            };
            this.arithmetic.clear(); // one step's cells at a time: they are many
            this.arithmetic.set(place, new Arithmetic(formula, tree, lookup));
        }
        return this.arithmetic.get(place);
    }

    /** @return its text, and the cells that the number comes from: a map of tensors to sets of offsets */
    explain(place, offset) {
        const step = this.steps[place], {tensor, formula} = step, index = indexAt(offset, tensor.shape);
        const explanation = {cell: step.path + bracketed(index), formula, names: '', numbers: '', notes: [], parts: []};
        const recorded = Number(tensor.values()[offset]);
        const resultText = value => tensor.type === 'boolean' && (value === 0 || value === 1) ? truthText(value) : exactText(value);
        explanation.result = resultText(recorded);
        if (formula === '') {
            explanation.notes = ['an input: it has no formula'];
            return {text: explanationText(explanation), cells: new Map()};
        }
        try {
            const arithmetic = this.arithmeticOf(place);
            if (!sameShape(arithmetic.shape, tensor.shape)) {
                throw new Error(`${formula} has the shape ${shapeText(arithmetic.shape)}, and the step ${shapeText(tensor.shape)}`);
            }
            const scalar = arithmetic.at(index);
            this.write(explanation, scalar, new Set([explanation.cell]));
            if (!(excess(recorded, scalar.value, SAFETY * scalar.error) <= 1)) {
                explanation.notes.push('but the trace has ' + explanation.result);
                explanation.result = resultText(scalar.value);
            }
            return {text: explanationText(explanation), cells: cellsIn(scalar)};
        } catch (error) {
            this.arithmetic.clear();
            return {text: `${explanation.cell} can't be explained: ${error.message}\n`, cells: new Map(), failed: true};
        }
    }

    write(explanation, scalar, explained) {
        const writer = new Writer();
        explanation.names = writer.withNames(scalar);
        explanation.numbers = writer.withNumbers(scalar);
        explanation.notes = writer.reasons();
        for (const written of writer.written) {
            if (explanation.parts.length >= TERMS || explained.size >= MOST_EXPLAINED) break;
            if (written.kind !== 'part') continue;
            const origin = ': ' + treeText(written.origin); // one cell shows how the others come about
            if (explained.has(origin)) continue;
            explained.add(origin);
            const part = {cell: cellOfTreeText(written.origin, written.index), formula: '', result: exactText(written.value), parts: []};
            explanation.parts.push(part);
            this.write(part, written, explained);
        }
    }
}

/** The cells of steps that a number comes from. */
function cellsIn(scalar) {
    const cells = new Map(), seen = new Set(), left = [scalar];
    while (left.length > 0) {
        const next = left.pop();
        if (seen.has(next)) continue;
        seen.add(next);
        if (next.kind === 'cell') {
            if (!cells.has(next.tensor)) cells.set(next.tensor, new Set());
            cells.get(next.tensor).add(next.offset);
        }
        if (next.about) left.push(next.about);
        left.push(...next.operands.toReversed()); // taken from the end, so in the order in which they are written
    }
    return cells;
}

function explanationText(explanation, indent = '') {
    const inner = indent + '  ', {names, numbers, result} = explanation;
    let text = indent + (indent === '' ? '' : 'where ') + explanation.cell;
    if (explanation.formula !== '') text += ' = ' + explanation.formula;
    else if (names === '') text += ' = ' + result;
    text += '\n';
    if (names !== '') {
        if (names !== numbers && names !== explanation.formula && names !== result) text += `${inner}= ${names}\n`;
        if (numbers !== result) text += `${inner}= ${numbers}\n`;
        text += `${inner}= ${result}\n`;
    }
    for (const note of explanation.notes) text += `${inner}${note}\n`;
    for (const part of explanation.parts) text += explanationText(part, inner);
    return text;
}
