'use strict';

// The page: one step with its heatmaps, the arithmetic of one number, keys.

let model, place = 0, cell = {row: 0, column: 0}, isExplained = false;
const slices = new Map(); // by path: the places on the axes in front of the last two
let heatmaps = []; // all on the page
let primary = []; // those of the step itself
let palette;
const main = byId('step'), list = byId('list');
const MOST_MULTIPLES = 512, MOST_PICTURED = 2 ** 24; // small pictures, and the numbers that are loaded for them
let turn = 0; // of showing: what was asked for in an earlier one comes too late

const sizeOf = () => Math.max(main.clientWidth - (parseFloat(getComputedStyle(main).paddingLeft) || 0) * 2, 120);

/** Where in a tensor the page looks: the axes in front of the last two, by a remembered place each. */
function sliceOf(path, shape) {
    const known = slices.get(path) || [];
    return shape.slice(0, -2).map((size, axis) => Math.min(known[axis] || 0, Math.max(size - 1, 0)));
}

/** A matrix of a loaded tensor, for a heatmap. */
function matrixOf({path, axes, tensor}, slice) {
    const {shape, values} = tensor, rank = shape.length;
    const rows = rank > 1 ? shape.at(-2) : 1, columns = rank > 0 ? shape.at(-1) : 1;
    const first = rank > 2 ? offsetOf(slice, shape.slice(0, -2)) * rows * columns : 0;
    const letters = rank > 1 ? [axes.at(-2), axes.at(-1)] : [undefined, axes.at(-1)];
    const labels = letters.map((letter, i) => {
        const tokens = letter === 'n' ? model.tokens : letter === 'm' ? model.tokens_m : [];
        return tokens.length > 0 && tokens.length === (i === 0 ? rows : columns) ? tokens : null;
    });
    const value = (row, column) => values[first + row * columns + column];
    const index = (row, column) => rank === 0 ? [] : rank === 1 ? [column] : [...slice, row, column];
    const tokens = (row, column) => {
        const parts = [];
        if (labels[0]) parts.push(`${letters[0]}: ${labels[0][row]}`);
        if (labels[1]) parts.push(`${letters[1]}: ${labels[1][column]}`);
        return parts.join(' \u2192 ');
    };
    const name = (row, column) => {
        const words = tokens(row, column);
        return `${path}${bracketed(index(row, column))} is ${exactText(value(row, column))}${words ? `, ${words}` : ''}`;
    };
    return {rows, columns, first, value, index, name, tokens, letters, labels, isFlat: rank < 2, isSingle: rank === 0};
}

// ---------------------------------------------------------------------------------------------------- one step

/** A formula, the names of steps in it as buttons. */
function equationOf(step) {
    const line = make('p', {className: 'equation'}, make('span', {className: 'equals'}, step.formula === '' ? 'an input' : '= '));
    let at = 0;
    for (const [from, length, target] of step.links) {
        line.append(step.formula.slice(at, from));
        at = from + length;
        line.append(stepLink(model.runs[step.run][target].path, step.formula.slice(from, at)));
    }
    line.append(step.formula.slice(at));
    return line;
}

function stepLink(path, text = path) {
    const link = make('button', {type: 'button', title: path}, text);
    link.addEventListener('click', () => show(model.places.get(path)));
    return link;
}

/** A step's other names. */
const aliasesOf = entry => entry.aliases.length === 0 ? null
    : make('p', {className: 'about'}, 'also called ', ...entry.aliases.flatMap((path, i) => [i > 0 ? ', ' : '', make('code', {}, path)]));

function aboutOf(step) {
    if (!step.module && step.options.length === 0) return null;
    const line = make('p', {className: 'about'});
    if (step.module) line.append('computed by ', make('code', {}, step.module));
    if (step.options.length > 0) {
        line.append(step.module ? ', with ' : 'with ');
        step.options.forEach(([name, value], i) => line.append(i > 0 ? ', ' : '', make('code', {}, `${name} = ${value}`)));
    }
    return line;
}

/** Small pictures side by side, to compare and to choose from, all with one scale of colours; their numbers come later. */
function multiplesRow(label, pictures) {
    const row = make('div', {className: 'multiples', role: 'group', 'aria-label': label});
    const tensors = [...new Set(pictures.map(({step}) => step.tensor))];
    const canvases = pictures.map(({name, isShown, choose}) => {
        const canvas = make('canvas', {'aria-hidden': 'true'});
        const button = make('button', {type: 'button', 'aria-pressed': String(isShown)}, canvas, name);
        button.addEventListener('click', choose);
        row.append(button);
        return canvas;
    });
    const draw = () => {
        const scale = new Scale(tensors);
        pictures.forEach(({step, slice}, i) => {
            const canvas = canvases[i], matrix = matrixOf(step, slice);
            canvas.redraw = () => drawThumbnail(canvas, matrix, scale, palette);
            if (i < 32) canvas.redraw();
            else watcher.observe(canvas);
        });
    };
    if (tensors.every(({values}) => values)) draw();
    else if (tensors.reduce((sum, {shape}) => sum + countOf(shape), 0) > MOST_PICTURED) row.classList.add('unpictured');
    else load(tensors).then(draw, () => row.classList.add('unpictured'));
    return row;
}

/** The same step of all heads or layers; or a tensor's matrices along its heads, or its last axis but two. */
function multiplesOf(entry) {
    const siblings = model.siblingsOf(entry);
    if (siblings) {
        return multiplesRow(`${entry.path} of each ${siblings.word}`, siblings.family.map(({number, entry: each}) => {
            const step = each.step || each.other;
            return {step, slice: sliceOf(entry.path, step.shape), name: `${siblings.word} ${number}`, isShown: each === entry, choose() {
                slices.set(each.path, slices.get(entry.path) || []);
                show(each.place, {keep: true});
            }};
        }));
    }
    const step = entry.step || entry.other, {shape} = step, slice = sliceOf(entry.path, shape);
    if (slice.length === 0 || shape.includes(0)) return null;
    const heads = step.axes.slice(0, -2).indexOf('h'), axis = heads >= 0 ? heads : slice.length - 1;
    if (shape[axis] < 2 || shape[axis] > MOST_MULTIPLES) return null;
    const letter = step.axes[axis] || `axis ${axis}`;
    return multiplesRow(`${entry.path} along ${letter}`, Array.from({length: shape[axis]}, (_, at) => {
        const own = slice.with(axis, at);
        return {step, slice: own, name: `${letter} = ${at}`, isShown: at === slice[axis], choose() {
            slices.set(entry.path, own);
            show(place, {keep: true});
        }};
    }));
}

const watcher = new IntersectionObserver(found => {
    for (const {target, isIntersecting} of found) {
        if (!isIntersecting) continue;
        watcher.unobserve(target);
        target.redraw();
    }
});

/** For a tensor of more than two axes: which matrix of it is shown. */
function slicersOf(entry, step) {
    const {shape} = step;
    if (shape.length < 3) return null;
    const controls = make('div', {className: 'controls'});
    const slice = sliceOf(entry.path, shape);
    slice.forEach((at, axis) => {
        const letter = step.axes[axis] || `axis ${axis}`;
        const change = to => {
            const next = sliceOf(entry.path, shape);
            next[axis] = Math.min(Math.max(to, 0), shape[axis] - 1);
            slices.set(entry.path, next);
            show(place, {keep: true, focusSlice: axis});
        };
        const choice = make('select', {'aria-label': `${letter}, of ${shape[axis]}`});
        for (let i = 0; i < Math.min(shape[axis], 10000); ++i) choice.append(make('option', {value: String(i), selected: i === at}, String(i)));
        choice.addEventListener('change', () => change(Number(choice.value)));
        const before = make('button', {type: 'button', 'aria-label': `previous ${letter}`}, '\u2039');
        const after = make('button', {type: 'button', 'aria-label': `next ${letter}`}, '\u203a');
        before.addEventListener('click', () => change(at - 1));
        after.addEventListener('click', () => change(at + 1));
        controls.append(make('span', {className: 'slice'}, `${letter} = `, before, choice, after, ` of ${shape[axis]}`));
    });
    return controls;
}

function moveSlice(by) {
    const entry = model.entries[place], {shape} = entry.step || entry.other;
    if (shape.length < 3) return;
    const leading = shape.slice(0, -2), next = sliceOf(entry.path, shape);
    const at = Math.min(Math.max(offsetOf(next, leading) + by, 0), countOf(leading) - 1);
    slices.set(entry.path, indexAt(at, leading));
    show(place, {keep: true});
}

function legendOf(scale, format) {
    const legend = make('span', {className: 'legend'});
    if (scale.isBoolean) {
        for (const [value, text] of [[1, 'true'], [0, 'false']]) legend.append(swatch(value, text, scale));
        return legend;
    }
    if (scale.hasSizes) {
        const bar = make('canvas', {width: 140, height: 12, 'aria-hidden': 'true'});
        bar.redraw = () => {
            const context = bar.getContext('2d');
            for (let x = 0; x < 140; ++x) {
                const share = scale.isSigned ? x / 139 * 2 - 1 : x / 139;
                context.fillStyle = cssColor(scale.rgb(share * scale.largest || Number.MIN_VALUE, palette));
                context.fillRect(x, 0, 1, 12);
            }
        };
        bar.redraw();
        const end = format(scale.largest);
        legend.append(make('span', {}, scale.isSigned ? `\u2212${end}` : '0', bar, end));
    }
    for (const [name, value, text] of [['0', 0, 'exactly 0'], ['-inf', -Infinity, '\u2212\u221e'], ['inf', Infinity, '+\u221e'], ['nan', NaN, 'no number']]) {
        if (scale.special.has(name)) legend.append(swatch(value, text, scale));
    }
    return legend;
}

function swatch(value, text, scale) {
    const canvas = make('canvas', {width: 18, height: 14, 'aria-hidden': 'true'});
    canvas.redraw = () => fillCell(canvas.getContext('2d'), value, scale, palette, 0, 0, 18, 14);
    canvas.redraw();
    return make('span', {}, canvas, text);
}

function zoomOf(shown) {
    const button = (text, label, by) => {
        const element = make('button', {type: 'button', 'aria-label': label, title: label}, text);
        element.addEventListener('click', () => {
            for (const each of shown) each.setZoom(each.zoom + by(each));
        });
        return element;
    };
    return make('span', {className: 'zoom'}, button('\u2212', 'Smaller cells', () => -1), button('+', 'Larger cells', () => 1),
        button('Numbers', 'Numbers or overview', each => (each.zoom === NUMBERS ? each.overview() : NUMBERS) - each.zoom));
}

/** A tensor's heatmap under a heading. */
function paneOf(heading, step, slice, scale, format, events, options) {
    const title = make('h3', {}, ...heading);
    const pane = make('div', {className: 'pane'}, title);
    if (step.tensor.shape.includes(0)) {
        pane.append(make('p', {className: 'nothing'}, 'no numbers: an axis has size 0'));
        return {pane};
    }
    const heatmap = new Heatmap(matrixOf(step, slice), scale, format, events, options);
    pane.append(heatmap.element);
    heatmaps.push(heatmap);
    return {pane, heatmap};
}

const highest = () => Math.max(260, Math.min(Math.round(window.innerHeight * 0.55), 720));

/** The difference of two loaded tensors as a tensor. */
function differenceTensor(step, other) {
    const a = step.tensor.values, b = other.tensor.values;
    const values = Float64Array.from(a, (x, i) => x === b[i] || (Number.isNaN(x) && Number.isNaN(b[i])) ? 0 : b[i] - x);
    return {shape: step.shape, type: 'real', values, ...summaryOf(values)};
}

/** The heatmaps of a step whose numbers are loaded: of either run, and of their difference. */
function panesOf(entry) {
    const sides = SIDES.filter(side => entry[side]);
    const scale = new Scale(sides.map(side => entry[side].tensor));
    const ranges = sides.map(side => entry[side].tensor);
    const format = shortFormat({type: ranges[0].type, whole: scale.whole, low: -scale.largest, high: scale.largest});
    const panes = make('div', {className: 'panes'});
    const events = {
        moved(row, column) {
            cell = {row, column};
            for (const each of primary) if (each.row !== row || each.column !== column) each.setCursor(row, column);
            readOut();
            if (isExplained) explainCell();
            remember();
        },
        async picked() {
            isExplained = true;
            remember();
            await explainCell();
            reveal(byId('arithmetic'));
        },
        hovered(row, column) {
            readOut(row, column);
        },
    };
    for (const side of sides) {
        const step = entry[side];
        const heading = model.other === undefined ? [] : [model.titles[side], make('span', {className: 'shape'}, axesText(step))];
        const {pane, heatmap} = paneOf(heading, step, sliceOf(entry.path, step.shape), scale, format, events,
            {label: `${entry.path} ${axesText(step)}${model.other === undefined ? '' : ` of ${model.titles[side]}`}`, highest: highest()});
        if (heading.length === 0) pane.firstChild.remove();
        panes.append(pane);
        if (heatmap) {
            heatmap.side = side;
            primary.push(heatmap);
        }
    }
    const legends = [legendOf(scale, format)];
    if (sides.length === 2 && sameShape(ranges[0].shape, ranges[1].shape)) {
        const tensor = differenceTensor(entry.step, entry.other), differenceScale = new Scale([tensor]);
        differenceScale.isSigned = true;
        const differenceFormat = shortFormat(tensor);
        const {pane, heatmap} = paneOf(['difference', make('span', {className: 'shape'}, 'second \u2212 first')],
            {...entry.step, path: `difference of ${entry.path}`, tensor}, sliceOf(entry.path, tensor.shape), differenceScale, differenceFormat, events,
            {label: `the difference of ${entry.path}`, highest: highest()});
        panes.append(pane);
        if (heatmap) primary.push(heatmap);
        if (entry.difference.kind !== 'same') legends.push(make('span', {className: 'legend'}, 'difference', legendOf(differenceScale, differenceFormat)));
    }
    const below = make('div', {className: 'below'}, ...legends);
    if (primary.length > 0 && !primary[0].matrix.isSingle) below.prepend(zoomOf(primary));
    return [panes, below];
}

/** The line that says which number the cursor, or the pointer, is on. */
function readOut(row = cell.row, column = cell.column) {
    const line = main.querySelector('.readout'), heatmap = primary[0];
    if (!line || !heatmap) return;
    const {matrix} = heatmap, entry = model.entries[place];
    [row, column] = [Math.min(row, matrix.rows - 1), Math.min(column, matrix.columns - 1)];
    const {type} = entry.step || entry.other;
    const text = ({matrix: each}) => valueText(each.value(Math.min(row, each.rows - 1), Math.min(column, each.columns - 1)), type);
    line.replaceChildren(`${entry.path}${bracketed(matrix.index(row, column))} = ${text(heatmap)}`);
    const other = primary.find(each => each !== heatmap && each.side === 'other');
    if (other) line.append(` \u00b7 ${model.other}: ${text(other)}`);
    const tokens = matrix.tokens(row, column);
    if (tokens) line.append(make('span', {className: 'tokens'}, `   ${tokens}`));
}

// ---------------------------------------------------------------------------------------------------- the arithmetic

/** An explanation, a block a line: where one is too long, the rest is indented. */
function arithmeticText(text) {
    return make('pre', {}, ...text.split(/(?<=\n)/).map((line, i) => {
        const kind = i === 0 ? 'first' : /^\s+(since|but) /.test(line) ? 'reason' : '';
        const block = make('span', {className: kind}, line);
        block.style.setProperty('--indent', `${/^ */.exec(line)[0].length + 4}ch`);
        return block;
    }));
}

/** The command that explains a cell which this page has no explanation of. */
function commandFor(step, offset) {
    const quoted = word => /^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
    const command = `attn explain ${quoted(model.titles[SIDES[step.run]])} '${step.path}${bracketed(indexAt(offset, step.shape))}'`;
    const code = make('code', {}, command), button = make('button', {className: 'plain', type: 'button'}, 'Copy');
    button.addEventListener('click', async () => {
        try {
            await navigator.clipboard.writeText(command);
            button.textContent = 'Copied';
        } catch { // not allowed: it is selected, to be copied by hand
            getSelection().selectAllChildren(code);
            button.textContent = 'Selected';
        }
    });
    return make('div', {className: 'command'}, make('p', {}, 'This page carries the arithmetic of its smaller steps only. ' +
        'For this number, run the command below, or open the trace with attn view and without -o.'), make('p', {}, code, ' ', button));
}

/** Offsets of [start, stride, count, start, stride, count, …]. */
function offsetsIn(ranges) {
    const offsets = new Set();
    for (let at = 0; at < ranges.length; at += 3) {
        for (let i = 0; i < ranges[at + 2]; ++i) offsets.add(ranges[at] + i * ranges[at + 1]);
    }
    return offsets;
}

/** Below the step, how the number under the cursor came about, and where from. */
async function explainCell() {
    const section = byId('arithmetic'), entry = model.entries[place], now = ++turn;
    const asked = SIDES.map(side => ({step: entry[side], heatmap: primary.find(each => each.side === side)})).filter(({heatmap}) => heatmap);
    section.hidden = false;
    const children = [make('h2', {}, 'The arithmetic')], operands = [];
    try {
        for (const each of asked) {
            const {matrix, row, column} = each.heatmap;
            each.offset = matrix.first + row * matrix.columns + column;
        }
        const found = await Promise.all(asked.map(({step, offset}) => model.explanationOf(step, offset)));
        asked.forEach(({step, offset}, i) => {
            if (i > 0 && found[i] && found[i].text === found[0]?.text) return;
            if (model.other !== undefined) children.push(make('h2', {}, model.titles[SIDES[step.run]]));
            children.push(found[i] ? arithmeticText(found[i].text) : commandFor(step, offset));
        });
        const first = found.findIndex(Boolean), run = first < 0 ? 0 : asked[first].step.run;
        for (const [step, ranges] of first < 0 ? [] : found[first].cells) operands.push({entry: model.runs[run][step], side: SIDES[run], offsets: offsetsIn(ranges)});
        await load(operands.map(({entry: each, side}) => each[side].tensor));
    } catch (error) {
        children.push(make('p', {className: 'problem'}, error.message));
    }
    if (now !== turn) return;
    heatmaps = heatmaps.filter(each => primary.includes(each));
    const panes = operands.filter(({entry: each, side}) => each[side].tensor.values).map(({entry: each, side, offsets}) => operandPane(each, side, offsets));
    section.replaceChildren(...children, ...panes.length > 0 ? [make('div', {className: 'panes'}, ...panes)] : []);
    layoutOperands();
}

/** Scrolls until the beginning of what is below can be read, as long as the number that it is about stays in view. */
function reveal(section) {
    if (primary.length === 0) return;
    const room = main.getBoundingClientRect(), wanted = section.getBoundingClientRect().top + Math.min(section.offsetHeight, 230) - room.bottom;
    const {element, header, row, cellHeight} = primary[0];
    const above = element.getBoundingClientRect().top - room.top + header + row * cellHeight - element.scrollTop - 8;
    if (wanted > 0) main.scrollTop += Math.min(wanted, Math.max(above, 0));
}

/** A heatmap of an operand, on which the cells stand out that the number came from. */
function operandPane(entry, side, offsets) {
    const step = entry[side], {shape, tensor} = step, rank = shape.length;
    const size = (rank > 1 ? shape.at(-2) : 1) * (rank > 0 ? shape.at(-1) : 1);
    let first = Infinity;
    for (const offset of offsets) first = Math.min(first, offset);
    const page = Math.floor(first / size), leading = shape.slice(0, -2), slice = rank > 2 ? indexAt(page, leading) : [];
    const marks = new Set();
    for (const offset of offsets) if (Math.floor(offset / size) === page) marks.add(offset - page * size);
    const scale = new Scale([tensor]), where = slice.length > 0 ? `${bracketed(slice).replace(']', ',\u2026]')}` : '';
    const events = {moved() {}, hovered() {}, picked(row, column) {
        slices.set(entry.path, slice);
        show(entry.place, {at: {row, column}});
    }};
    const {pane, heatmap} = paneOf([stepLink(entry.path), make('span', {className: 'shape'}, axesText(step) + where)], step, slice, scale,
        shortFormat(tensor), events, {label: `${entry.path}: ${offsets.size} of its numbers are in the arithmetic`, highest: 300, isSmall: true});
    if (heatmap) heatmap.mark(marks);
    return pane;
}

// ---------------------------------------------------------------------------------------------------- showing

function layoutAll() {
    const all = sizeOf(), gap = 28;
    for (const heatmap of primary) heatmap.layout(all, palette);
    // What doesn't fit side by side shares the line where there is room, so that differences are seen.
    const needed = primary.reduce((sum, heatmap) => sum + heatmap.element.offsetWidth + gap, -gap);
    if (primary.length > 1 && needed > all && all > 700) {
        for (const heatmap of primary) heatmap.layout(Math.floor((all - gap * (primary.length - 1)) / primary.length), palette);
    }
    layoutOperands();
}

/** Only these, where the step's own heatmaps stay as they are, scrolled to somewhere. */
function layoutOperands() {
    for (const heatmap of heatmaps) {
        if (primary.includes(heatmap)) continue;
        heatmap.layout(Math.max(sizeOf() - 38, 120), palette);
        heatmap.mark(heatmap.marks);
    }
}

/** Marks a step in the list. */
function select(entry) {
    const last = model.entries[place];
    last.button.removeAttribute('aria-current');
    last.button.tabIndex = -1;
    place = entry.place;
    entry.button.setAttribute('aria-current', 'true');
    entry.button.tabIndex = 0;
    for (let group = entry.group; group && group.header; group = group.parent) toggle(group, true);
    entry.button.scrollIntoView({block: 'nearest'});
}

/** What is known of a step without its numbers. */
function headOf(entry) {
    const step = entry.step || entry.other, scopes = entry.path.split('.'), name = scopes.pop();
    return [
        make('p', {className: 'scope'}, [`step ${entry.place + 1} of ${model.entries.length}`, ...scopes].join(' \u203a ')),
        make('h2', {className: 'headline'}, name, make('span', {className: 'shape'}, axesText(step) || 'a single number')),
        equationOf(step), aboutOf(step), aliasesOf(entry),
        step.problem ? make('p', {className: 'problem'}, `The formula can't be read: ${step.problem}`) : null,
        differenceNote(entry), multiplesOf(entry), slicersOf(entry, step),
    ];
}

const hint = () => make('p', {className: 'hint'}, 'Click a number for its arithmetic. ', make('span', {className: 'keyboard'}, 'By keyboard: ',
    ...keysText('\u2191', '\u2193'), ' steps, ', ...keysText('Enter'), ' into the numbers, then for the arithmetic, ', ...keysText('Esc'), ' back, ', ...keysText('?'), ' all.'));

/** Shows the numbers of a step, once they are loaded. */
async function showNumbers(entry, children, now) {
    const tensors = SIDES.filter(side => entry[side]).map(side => entry[side].tensor);
    const isThere = tensors.every(({values}) => values), loading = load(tensors);
    if (!isThere) {
        main.replaceChildren(...children, make('p', {className: 'nothing reading'}, 'Reading the numbers\u2026'));
        try {
            await loading;
        } catch (error) {
            main.lastChild.replaceWith(make('p', {className: 'problem'}, error.message));
        }
        if (now !== turn || !tensors.every(({values}) => values)) return;
    }
    const panes = panesOf(entry);
    main.replaceChildren(...children, ...panes, make('p', {className: 'readout'}), ...primary.length > 0 ? [hint()] : [],
        make('section', {id: 'arithmetic', className: 'arithmetic', hidden: true, 'aria-label': 'The arithmetic', 'aria-live': 'polite'}));
    for (const heatmap of primary) heatmap.setCursor(cell.row, cell.column);
    layoutAll();
    if (primary.length > 0) {
        cell = {row: primary[0].row, column: primary[0].column};
        readOut();
        if (isExplained) explainCell();
    }
    remember();
}

/**
 * Shows a step.
 * @param how  {focus: its place in the list, inNumbers: or them, keep: an explanation that is open, at: a cell to explain, focusSlice}
 */
async function show(to, how = {}) {
    if (to === undefined || !model.entries[to]) return;
    const focused = document.activeElement, wasInList = list.contains(focused), wasInNumbers = primary.some(each => each.element === document.activeElement);
    const entry = model.entries[to], now = ++turn;
    if (to !== place) main.scrollTop = 0;
    select(entry);
    if (how.at) cell = how.at;
    isExplained = Boolean(how.at) || (Boolean(how.keep) && isExplained);
    heatmaps = [];
    primary = [];
    document.title = `${entry.path} \u00b7 ${model.title} \u00b7 attn`;
    remember();
    await showNumbers(entry, headOf(entry).filter(Boolean), now);
    if (place !== to || ![focused, document.body].includes(document.activeElement)) return; // somewhere else by now
    if (how.inNumbers) focusNumbers();
    else if (how.focusSlice !== undefined) main.querySelectorAll('.slice select')[how.focusSlice].focus();
    else if (how.focus || wasInList) entry.button.focus({preventScroll: true});
    else if (wasInNumbers) focusNumbers();
}

const keysText = (...keys) => keys.flatMap((key, i) => [i > 0 ? ' ' : '', make('kbd', {}, key)]);

function differenceNote(entry) {
    if (!entry.difference) return null;
    const {kind, largest, at} = entry.difference;
    if (kind === 'differs') {
        const link = make('button', {type: 'button'}, bracketed(at) || 'its number');
        link.addEventListener('click', () => showCell(entry, at));
        return make('p', {className: 'problem'}, largest === 'inf' ? 'An infinity, or what is no number, in one of the two only; first at '
            : `They differ by up to ${largest}, at `, link, '.');
    }
    const text = {
        missing: `Only ${model.title} has this step.`, extra: `Only ${model.other} has this step.`, shape: 'The two have different shapes.',
    }[kind];
    return text ? make('p', {className: 'problem'}, text) : null;
}

function showCell(entry, index) {
    slices.set(entry.path, index.slice(0, -2));
    show(entry.place, {at: {row: index.length > 1 ? index.at(-2) : 0, column: index.length > 0 ? index.at(-1) : 0}});
}

/** The address names the step and the cell, so that a link leads back to them. */
function remember() {
    const entry = model.entries[place];
    const index = isExplained && primary.length > 0 ? bracketed(primary[0].matrix.index(primary[0].row, primary[0].column)) : '';
    try {
        history.replaceState(null, '', `#${entry.path}${index}`);
    } catch { /* some browsers refuse for a file: the page works without */ }
}

function recall() {
    const found = /^#([\w.]+)(?:(?:\[|%5B)([\d,]*|[\d%2C]*)(?:\]|%5D))?$/i.exec(location.hash);
    const to = found ? model.places.get(found[1]) : undefined;
    if (to === undefined) return show(0);
    const entry = model.entries[to], {shape} = entry.step || entry.other;
    const index = found[2] ? found[2].replace(/%2C/gi, ',').split(',').map(Number) : [];
    if (index.length !== shape.length || index.some((each, axis) => !(each < shape[axis]))) return show(to);
    return showCell(entry, index);
}

function focusNumbers() {
    if (primary.length > 0) primary[0].element.focus({preventScroll: true});
}

function walk(by) {
    for (let to = place + by; to >= 0 && to < model.entries.length; to += by) {
        if (!model.entries[to].item.hidden) return show(to);
    }
    return undefined;
}

function walkSiblings(by) {
    const entry = model.entries[place], siblings = model.siblingsOf(entry);
    if (!siblings) return;
    const at = siblings.family.findIndex(each => each.entry === entry), next = siblings.family[at + by];
    if (!next) return;
    slices.set(next.entry.path, slices.get(entry.path) || []);
    show(next.entry.place, {keep: true});
}

// ---------------------------------------------------------------------------------------------------- light and dark

const darkness = window.matchMedia('(prefers-color-scheme: dark)');
let chosenTheme = null;
try {
    chosenTheme = localStorage.getItem('attn-theme');
} catch { /* a page without storage follows the system */ }

function applyTheme() {
    const isDark = chosenTheme === 'dark' || (chosenTheme !== 'light' && darkness.matches);
    document.documentElement.dataset.theme = isDark ? 'dark' : 'light';
    palette = makePalette(isDark);
    for (const heatmap of heatmaps) {
        heatmap.palette = palette;
        heatmap.draw();
    }
    for (const canvas of document.querySelectorAll('canvas')) if (canvas.redraw) canvas.redraw();
}

/** The other theme; that of the system is followed again, and not remembered. */
function changeTheme() {
    const other = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
    chosenTheme = (other === 'dark') === darkness.matches ? null : other;
    try {
        if (chosenTheme) localStorage.setItem('attn-theme', chosenTheme);
        else localStorage.removeItem('attn-theme');
    } catch { /* for this visit, then */ }
    applyTheme();
}

// ---------------------------------------------------------------------------------------------------- keys

function closeMenu() {
    byId('steps').classList.remove('open');
    byId('menu').setAttribute('aria-expanded', 'false');
}

function openMenu() {
    const isOpen = byId('steps').classList.toggle('open');
    byId('menu').setAttribute('aria-expanded', String(isOpen));
    if (isOpen) model.entries[place].button.focus();
}

function onKey(event) {
    const help = byId('help'), filter = byId('filter'), target = event.target;
    if (help.open || event.altKey || event.metaKey || event.ctrlKey) return;
    if (target === filter) {
        if (event.key === 'Escape') {
            filter.value = '';
            filterList();
        } else if (event.key !== 'Enter' && event.key !== 'ArrowDown') return;
        const isShown = event.key === 'Escape' || !model.entries[place].item.hidden;
        const first = model.entries.find(({item}) => !item.hidden) || model.aliases.find(({item}) => !item.hidden)?.entry;
        if (first) show(isShown ? place : first.place, {focus: true});
        event.preventDefault();
        return;
    }
    if (target.matches('select, input')) return;
    const inNumbers = primary.some(each => each.element === target);
    const actions = {
        j: () => walk(1), k: () => walk(-1), ArrowDown: () => walk(1), ArrowUp: () => walk(-1),
        '[': () => walkSiblings(-1), ']': () => walkSiblings(1), '{': () => moveSlice(-1), '}': () => moveSlice(1),
        '/': () => {
            byId('steps').classList.add('open');
            filter.focus();
            filter.select();
        },
        '?': () => help.showModal(), t: changeTheme,
        Escape: () => {
            if (inNumbers || target === document.body || main.contains(target)) model.entries[place].button.focus();
            else closeMenu();
        },
    };
    if (Object.hasOwn(actions, event.key)) actions[event.key]();
    else if ((event.key === 'ArrowLeft' || event.key === 'ArrowRight') && list.contains(target)) {
        const {group} = model.entries[place];
        if (event.key === 'ArrowLeft' && group.header) group.header.focus();
        else if (event.key === 'ArrowRight') focusNumbers();
    } else if ((event.key === 'ArrowLeft' || event.key === 'ArrowRight') && primary.length > 0 && !inNumbers) {
        focusNumbers();
        primary[0].key(event);
    } else if (event.key === 'Enter' && !target.matches('button, a')) focusNumbers();
    else return;
    event.preventDefault();
}

// ---------------------------------------------------------------------------------------------------- the start

function verdict() {
    if (model.other === undefined) return;
    const line = byId('verdict'), parted = model.entries.find(({difference}) => !['same', 'rounding', 'missing', 'extra'].includes(difference.kind));
    line.hidden = false;
    const exact = model.entries.every(({difference}) => difference.kind === 'same');
    if (!parted) line.append(exact ? 'the same, number by number' : 'no step differs by more than rounding');
    else {
        const link = make('button', {type: 'button'}, parted.path);
        link.addEventListener('click', () => show(parted.place));
        line.append('part first at ', link);
    }
}

function start() {
    model = new Model(JSON.parse(byId('trace').textContent));
    byId('title').textContent = model.other === undefined ? model.title : `${model.title} \u2194 ${model.other}`;
    byId('title').title = byId('title').textContent;
    buildList();
    filterList();
    applyTheme();
    verdict();
    if (model.entries.length === 0) {
        main.replaceChildren(make('p', {className: 'nothing'}, 'This trace has no steps.'));
    } else {
        recall();
        document.addEventListener('keydown', onKey);
    }
    byId('filter').addEventListener('input', filterList);
    byId('previous').addEventListener('click', () => walk(-1));
    byId('next').addEventListener('click', () => walk(1));
    byId('theme').addEventListener('click', changeTheme);
    byId('keys').addEventListener('click', () => byId('help').showModal());
    byId('menu').addEventListener('click', openMenu);
    byId('skip').addEventListener('click', event => {
        event.preventDefault();
        focusNumbers();
    });
    darkness.addEventListener('change', applyTheme);
    window.addEventListener('hashchange', recall);
    let width = window.innerWidth;
    window.addEventListener('resize', () => {
        if (window.innerWidth === width) return;
        width = window.innerWidth;
        if (model.entries.length > 0) layoutAll();
    });
    document.documentElement.dataset.ready = 'true';
}

start();
