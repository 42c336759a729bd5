'use strict';

// The list of steps, by their scopes.
//
// What a trace says reaches the page as text only (textContent), never as markup.

/** An element with properties, attributes (a name with a hyphen, or role) and children. */
function make(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
        if (name.includes('-') || name === 'role') element.setAttribute(name, value);
        else element[name] = value;
    }
    element.append(...children.filter(child => child !== null));
    return element;
}

function badgeOf(entry) {
    if (!entry.difference) return null;
    const {kind, largest} = entry.difference;
    const [text, meaning] = {
        same: ['=', 'the same in both'], rounding: ['\u2248', `the same but for rounding, at most ${largest}`],
        differs: [`\u0394 ${Number(largest === 'inf' ? Infinity : largest).toPrecision(2).replace('Infinity', '\u221e')}`, `differs by up to ${largest}`],
        shape: ['shape', 'has another shape there'], missing: ['only here', `is not in ${model.other}`],
        extra: ['only there', `is in ${model.other} only`],
    }[kind];
    const isCalm = kind === 'same' || kind === 'rounding';
    return make('span', {className: isCalm ? 'badge calm' : 'badge', title: meaning}, text);
}

function listItem(entry) {
    const step = entry.step || entry.other, name = entry.path.split('.').at(-1);
    const button = make('button', {className: 'step', tabIndex: -1, type: 'button'}, badgeOf(entry),
        make('span', {className: 'name'}, name), ' ', make('span', {className: 'shape'}, axesText(step)),
        step.formula ? make('span', {className: 'formula'}, `= ${step.formula}`) : null);
    button.addEventListener('click', event => {
        show(entry.place, {inNumbers: event.detail === 0}); // by Enter
        closeMenu();
    });
    entry.item = make('li', {}, button);
    entry.button = button;
    return entry.item;
}

/** Another name of a step; it leads there. */
function aliasItem(alias) {
    const button = make('button', {className: 'step alias', tabIndex: -1, type: 'button', title: `another name of ${alias.entry.path}`},
        make('span', {className: 'name'}, alias.path.split('.').at(-1)), ' ', make('span', {className: 'shape'}, `is ${alias.entry.path}`));
    button.addEventListener('click', () => {
        show(alias.entry.place);
        closeMenu();
    });
    alias.item = make('li', {}, button);
    return alias.item;
}

/** Where aliases stand in the list: before the first step of their scope after the one that they mean, else after that. */
function aliasesBefore() {
    const before = new Map();
    for (const alias of model.aliases) {
        const scope = alias.path.slice(0, alias.path.lastIndexOf('.') + 1), from = alias.entry.place + 1;
        const found = model.entries.findIndex(({path, place}) => place >= from && path.startsWith(scope));
        const at = found < 0 || scope === '' ? from : found;
        before.set(at, [...before.get(at) || [], alias]);
    }
    return before;
}

/** The steps in order, those of one scope under its name, with their other names. */
function buildList() {
    const root = {element: make('ul'), name: '', groups: []}, before = aliasesBefore();
    const open = [root];
    /** The innermost group of a path. */
    const groupOf = path => {
        const scopes = path.split('.').slice(0, -1);
        let depth = 1;
        while (depth < open.length && depth <= scopes.length && open[depth].name === scopes[depth - 1]) ++depth;
        open.length = depth;
        while (open.length <= scopes.length) {
            const name = scopes[open.length - 1], parent = open.at(-1), inner = make('ul');
            const header = make('button', {className: 'group', type: 'button', tabIndex: -1, 'aria-expanded': 'true'}, name);
            const group = {element: inner, name, header, parent, entries: [], aliases: []};
            group.item = make('li', {}, header, inner);
            header.addEventListener('click', () => toggle(group));
            header.addEventListener('keydown', event => groupKey(event, group));
            parent.element.append(group.item);
            root.groups.push(group);
            open.push(group);
        }
        return open.at(-1);
    };
    for (let place = 0; place <= model.entries.length; ++place) {
        for (const alias of before.get(place) || []) {
            groupOf(alias.path).element.append(aliasItem(alias));
            for (const group of open.slice(1)) group.aliases.push(alias);
        }
        if (place === model.entries.length) break;
        const entry = model.entries[place];
        entry.group = groupOf(entry.path);
        for (const group of open.slice(1)) group.entries.push(entry);
        entry.group.element.append(listItem(entry));
    }
    model.groups = root.groups;
    list.replaceChildren(root.element);
}

function toggle(group, isOpen = group.element.hidden) {
    group.element.hidden = !isOpen;
    group.header.setAttribute('aria-expanded', String(isOpen));
}

function groupKey(event, group) {
    if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') toggle(group, event.key === 'ArrowRight');
    else if (event.key === 'ArrowDown') {
        const first = group.entries.find(entry => !entry.item.hidden);
        if (first) show(first.place, {focus: true});
    }
    else if (event.key === 'ArrowUp') {
        const before = model.entries.slice(0, group.entries[0]?.place ?? 0).reverse().find(entry => !entry.item.hidden);
        if (before) show(before.place, {focus: true});
    } else return;
    event.preventDefault();
    event.stopPropagation();
}

function filterList() {
    const words = byId('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = text => words.every(word => text.toLowerCase().includes(word));
    let shown = 0;
    for (const entry of model.entries) {
        const {formula, module} = entry.step || entry.other;
        entry.item.hidden = !fits(`${entry.path} ${formula} ${module}`);
        shown += Number(!entry.item.hidden);
    }
    for (const alias of model.aliases) alias.item.hidden = !fits(`${alias.path} is ${alias.entry.path}`);
    for (const group of model.groups) group.item.hidden = [...group.entries, ...group.aliases].every(({item}) => item.hidden);
    const all = model.entries.length;
    byId('count').textContent = shown === all ? `${all} step${all === 1 ? '' : 's'}` : `${shown} of ${all} steps`;
}
