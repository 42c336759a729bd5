// What the reader chose is remembered where the browser lets a page do so, else for this visit. Who shows it hears attn-chosen.
const chosen = {
    names: new Map(),
    get(name) {
        try {
            return this.names.get(name) ?? localStorage.getItem(name);
        } catch {
            return null;
        }
    },
    set(name, value) { // null: forgotten
        this.names.set(name, value);
        try {
            value === null ? localStorage.removeItem(name) : localStorage.setItem(name, value);
        } catch { /* storage is denied, or full */ }
        document.dispatchEvent(new CustomEvent("attn-chosen", { detail: name }));
    },
};

// Light or dark: as the system prefers, until the reader chooses.
const systemScheme = window.matchMedia("(prefers-color-scheme: dark)");

function applyScheme() {
    const scheme = chosen.get("attn-scheme");
    const dark = scheme ? scheme === "dark" : systemScheme.matches;
    document.documentElement.classList.toggle("dark-mode", dark);
    return dark;
}

applyScheme();
systemScheme.addEventListener("change", applyScheme);

document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("scheme");
    button.hidden = false;
    button.addEventListener("click", () => {
        const dark = !applyScheme();
        chosen.set("attn-scheme", dark === systemScheme.matches ? null : dark ? "dark" : "light");
        applyScheme();
    });
});

// The menu: closed by Escape and by a click beside it; the page that is open is marked, and the lessons that are done.
const doneName = number => `attn-done-${number}`;

document.addEventListener("DOMContentLoaded", () => {
    const menu = document.getElementById("menu"), opener = menu.querySelector("summary");
    document.addEventListener("click", event => {
        if (!menu.contains(event.target)) {
            menu.open = false;
        }
    });
    menu.addEventListener("keydown", event => {
        if (event.key === "Escape" && menu.open) {
            menu.open = false;
            opener.focus();
        }
    });
    const here = location.pathname.split("/").pop() || "index.html";
    menu.querySelector(`a[href$="${CSS.escape(here)}"]`)?.setAttribute("aria-current", "page");
    const mark = () => {
        for (const lesson of menu.querySelectorAll("[data-lesson]")) {
            const isDone = chosen.get(doneName(lesson.dataset.lesson)) === "1";
            lesson.classList.toggle("done", isDone);
            lesson.querySelector(".tick")?.remove();
            if (isDone) {
                const tick = document.createElement("span");
                tick.className = "tick";
                tick.textContent = "✓";
                tick.setAttribute("role", "img");
                tick.setAttribute("aria-label", "done");
                lesson.append(tick);
            }
        }
    };
    mark();
    document.addEventListener("attn-chosen", mark);
});

// At the end of a lesson: whether it is done. Its exercise, solved in the page, says so, too.
document.addEventListener("DOMContentLoaded", () => {
    const number = /\/lesson_(\d\d)_[^/]*$/.exec(location.pathname)?.[1];
    const pager = [...document.querySelectorAll(".contents .pager")].pop();
    if (!number || !pager) {
        return;
    }
    const label = document.createElement("label"), box = document.createElement("input");
    label.className = "lesson-done";
    box.type = "checkbox";
    box.addEventListener("change", () => chosen.set(doneName(number), box.checked ? "1" : null));
    label.append(box, " I have done this lesson");
    pager.before(label);
    const show = () => {
        box.checked = chosen.get(doneName(number)) === "1";
    };
    show();
    document.addEventListener("attn-chosen", show);
});

// A link into what is folded unfolds it.
function unfoldTarget() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let part = target?.closest("details"); part; part = part.parentElement.closest("details")) {
        part.open = true;
    }
    target?.scrollIntoView();
}

window.addEventListener("load", () => location.hash && unfoldTarget());
window.addEventListener("hashchange", unfoldTarget);

// What is too wide for a page scrolls inside a box of its own: tables and pictures, but not the words above and below them.
const WIDE = ["table.markdownTable", "table.doxtable", "table.memname", "table.memberdecls", "table.fieldtable", "table.directory", "table.tensor-values", "figure.picture > svg"];

// A part of a function stands at the left, however deep it is in its function.
function dedent(fragment) {
    const lines = [...fragment.querySelectorAll(":scope > .line")].filter(line => line.textContent.trim() !== "");
    const depth = Math.min(...lines.map(line => line.textContent.search(/\S/)));
    for (const line of lines) {
        if (depth > 0 && depth < Infinity && line.firstChild.nodeType === Node.TEXT_NODE) {
            line.firstChild.data = line.firstChild.data.slice(depth);
        }
    }
}

// Short code stays on one line. Longer code has places where it can break; the style sheet says when it does.
function breakable(code) {
    if (code.textContent.length <= 20) {
        code.classList.add("short");
        return;
    }
    code.classList.toggle("long", Math.max(...code.textContent.split(/\s+/).map(word => word.length)) > 34);
    const texts = [], walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        texts.push(walker.currentNode);
    }
    for (const text of texts) {
        const parts = text.data.replace(/\w(?:[/._,(=]|::)(?=[a-zA-Z"'])/g, "$&\0").split("\0");
        text.replaceWith(...parts.flatMap((part, i) => (i > 0 ? [document.createElement("wbr"), part] : [part])));
    }
}

// What a table is, for phones: words or numbers, and what the columns of its cells are called.
function describe(table) {
    const [head, ...rows] = table.rows;
    const cells = rows.flatMap(row => [...row.cells]);
    const letters = cells.reduce((sum, cell) => sum + cell.textContent.trim().length, 0);
    table.classList.toggle("words", head.cells.length <= 3 || letters > 15 * cells.length);
    if (head.cells.length > 2) {
        table.classList.add("labelled");
        rows.forEach(row => [...row.cells].slice(1).forEach((cell, i) => {
            const name = head.cells[i + 1]?.textContent.trim() ?? "";
            if (name !== "" && !name.includes("\\")) { // no TeX
                cell.dataset.column = name;
            }
        }));
    }
}

// Where a table is wider than its box, its code breaks; if that isn't enough, each row of words becomes a block, and a table of
// numbers scrolls, with more room. The style sheet does so on phones only.
function fit(box) {
    const table = box.querySelector(":scope > table.markdownTable");
    if (!table) {
        return;
    }
    box.classList.remove("broken", "stacked", "wide");
    for (const way of ["broken", table.classList.contains("words") ? "stacked" : "wide"]) {
        if (box.scrollWidth <= box.clientWidth + 1) {
            return;
        }
        box.classList.remove("broken");
        box.classList.add(way);
    }
}

// A box fades where it goes on, and is reached and moved with the keyboard.
function mark(box) {
    const scrolls = box.scrollWidth > box.clientWidth + 1;
    scrolls ? box.tabIndex = 0 : box.removeAttribute("tabindex");
    scrolls ? box.setAttribute("role", "group") : box.removeAttribute("role");
    scrolls ? box.setAttribute("aria-label", "scrolls sideways") : box.removeAttribute("aria-label");
    box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
    box.classList.toggle("before", box.scrollLeft > 1);
}

document.addEventListener("DOMContentLoaded", () => {
    for (const wide of document.querySelectorAll(WIDE.map(name => `.contents ${name}`))) {
        if (wide.parentElement.closest(".scroll, table") === null) {
            const box = document.createElement("div");
            box.className = "scroll";
            wide.replaceWith(box);
            box.append(wide);
        }
    }
    document.querySelectorAll(".contents table.markdownTable").forEach(describe);
    document.querySelectorAll(".contents :is(code, span.tt)").forEach(breakable);
    document.querySelectorAll(".contents div.fragment").forEach(dedent);
    const resized = new ResizeObserver(entries => entries.forEach(entry => {
        fit(entry.target);
        mark(entry.target);
    }));
    const watch = box => {
        box.addEventListener("scroll", () => mark(box), { passive: true });
        resized.observe(box);
    };
    document.querySelectorAll(".scroll, pre.fragment, pre.verbatim, div.fragment, .memproto, .memdoc, .formulaDsp").forEach(watch);
    new MutationObserver(records => { // tables that a page computes
        records.flatMap(({ addedNodes }) => [...addedNodes]).filter(node => node.nodeType === Node.ELEMENT_NODE)
            .flatMap(node => [...node.matches(".scroll") ? [node] : [], ...node.querySelectorAll(".scroll")]).forEach(watch);
    }).observe(document.querySelector(".contents") ?? document.body, { childList: true, subtree: true });
});

// A number with a dotted underline opens on a tap, with Enter or the space bar: its name in the run that made the page, and more
// digits. Where a lesson's page computes, how(number) says how it follows instead (docs/lab/page/bar.js).
const explained = {
    box: null,
    opener: null,
    how: null,

    show(beside, ...content) {
        this.opener = beside;
        const close = document.createElement("button");
        close.type = "button";
        close.textContent = "close";
        close.addEventListener("click", () => this.close(true));
        const last = content.at(-1)?.matches?.(".lab-buttons") ? content.pop() : document.createElement("p");
        last.className = "lab-buttons";
        last.append(close);
        this.box.replaceChildren(...content, last);
        this.box.hidden = false;
        const { bottom, left } = beside.getBoundingClientRect();
        this.box.style.top = `${bottom + window.scrollY + 6}px`;
        this.box.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - this.box.offsetWidth - 8))}px`;
        this.box.scrollIntoView({ block: "nearest" });
        this.box.querySelector("button").focus({ preventScroll: true });
    },

    close(isBack = false) {
        this.box.hidden = true;
        if (isBack) {
            this.opener.focus({ preventScroll: true });
        }
    },

    // What the page itself says of a number.
    said(number) {
        const text = document.createElement("p");
        text.textContent = number.title;
        return text;
    },

    open(number) {
        if (!this.how?.(number)) {
            this.show(number, this.said(number));
        }
    },
};

document.addEventListener("DOMContentLoaded", () => {
    const box = explained.box = document.createElement("div");
    box.className = "explained";
    box.hidden = true;
    box.setAttribute("role", "dialog");
    box.setAttribute("aria-label", "Where this number comes from");
    document.body.append(box);
    for (const number of document.querySelectorAll(".contents .from-run")) {
        number.tabIndex = 0;
        number.setAttribute("role", "button");
    }
    document.addEventListener("click", event => {
        const number = event.target.closest?.(".contents .from-run");
        if (number) {
            explained.open(number);
        } else if (!box.contains(event.target) && document.contains(event.target)) { // a button that was replaced was in it
            explained.close();
        }
    });
    document.addEventListener("keydown", event => {
        if (event.key === "Escape" && !box.hidden) {
            explained.close(true);
        }
        if (["Enter", " "].includes(event.key) && event.target.matches?.(".contents .from-run")) {
            event.preventDefault();
            explained.open(event.target);
        }
    });
});

// A step in C++ and the same in NumPy: one of them is shown, the one that the reader chose last, on every page, else NumPy. The
// generator marks the place between the two, and the place after C++ that has no NumPy beside it: for readers of NumPy, that is folded.
document.addEventListener("DOMContentLoaded", () => {
    const languages = ["NumPy", "C++"];
    const show = language => {
        chosen.set("attn-language", language);
        document.querySelectorAll("details.only-cpp").forEach(fold => (fold.open = language === "C++"));
        for (const pair of document.querySelectorAll(".both-languages")) {
            pair.dataset.shown = language;
            pair.querySelectorAll(":scope > .languages button").forEach(button => button.setAttribute("aria-pressed", String(button.textContent === language)));
        }
    };
    const codeOf = element => element?.matches("div.fragment, .scroll") ? element : null;
    for (const mark of document.querySelectorAll("i.alone")) {
        const cpp = codeOf(mark.previousElementSibling), fold = document.createElement("details"), title = document.createElement("summary");
        if (cpp) {
            fold.className = "only-cpp";
            title.textContent = "in C++ alone";
            cpp.before(fold);
            fold.append(title, cpp);
            mark.remove();
        }
    }
    for (const mark of document.querySelectorAll("i.either")) {
        const [cpp, numpy] = [codeOf(mark.previousElementSibling), codeOf(mark.nextElementSibling)];
        if (!cpp || !numpy) {
            continue;
        }
        const pair = document.createElement("div"), choice = document.createElement("div");
        pair.className = "both-languages";
        choice.className = "languages";
        choice.append(...languages.map(language => {
            const button = document.createElement("button");
            button.type = "button";
            button.textContent = language;
            button.addEventListener("click", () => {
                const before = pair.getBoundingClientRect().top;
                show(language);
                window.scrollBy(0, pair.getBoundingClientRect().top - before); // what is read stays where it is
            });
            return button;
        }));
        cpp.before(pair);
        pair.append(choice, cpp, numpy);
        cpp.classList.add("in-cpp");
        numpy.classList.add("in-numpy");
        mark.remove();
    }
    show(chosen.get("attn-language") ?? languages[0]);
});

// On paper what is folded is shown; afterwards it is as it was.
window.addEventListener("beforeprint", () => document.querySelectorAll("details:not([open])").forEach(part => {
    part.dataset.folded = "";
    part.open = true;
}));
window.addEventListener("afterprint", () => document.querySelectorAll("details[data-folded]").forEach(part => {
    part.open = false;
    delete part.dataset.folded;
}));
