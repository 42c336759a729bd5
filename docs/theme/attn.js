// What the reader chose is remembered where the browser lets a page do so, else for this visit.
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
    },
};

// Light or dark: as the system prefers, until the reader chooses. The classes are doxygen-awesome's.
const systemScheme = window.matchMedia("(prefers-color-scheme: dark)");

function applyScheme() {
    const scheme = chosen.get("attn-scheme");
    const dark = scheme ? scheme === "dark" : systemScheme.matches;
    document.documentElement.classList.toggle("dark-mode", dark);
    document.documentElement.classList.toggle("light-mode", !dark);
    return dark;
}

applyScheme();
systemScheme.addEventListener("change", applyScheme);

window.addEventListener("load", () => {
    const themed = getComputedStyle(document.documentElement).getPropertyValue("--searchbar-height") !== "";
    if (!themed) {
        return;
    }
    const button = document.createElement("button");
    button.id = "scheme";
    button.type = "button";
    button.textContent = "◐";
    button.title = "light or dark";
    button.setAttribute("aria-label", "Switch between light and dark");
    button.addEventListener("click", () => {
        const dark = !applyScheme();
        chosen.set("attn-scheme", dark === systemScheme.matches ? null : dark ? "dark" : "light");
        applyScheme();
    });
    // Doxygen's menu makes the search box when it is ready, and anew where the window's width changes.
    const place = () => {
        const beside = document.getElementById("MSearchBox")?.parentNode;
        if (beside && button.parentNode !== beside) {
            beside.append(button);
        }
    };
    place();
    new MutationObserver(place).observe(document.body, { childList: true, subtree: true });
});

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

// A box fades where it goes on.
function mark(box) {
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
    for (const box of document.querySelectorAll(".scroll, pre.fragment, div.fragment")) {
        box.tabIndex = 0; // reached and moved with the keyboard
        box.addEventListener("scroll", () => mark(box), { passive: true });
        resized.observe(box);
    }
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
            title.textContent = "C++";
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
                pair.closest("#doc-content")?.scrollBy(0, pair.getBoundingClientRect().top - before); // what is read stays where it is
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

// The map of the lessons is shown from its top, lesson 1, which is in its middle.
window.addEventListener("load", () => {
    const map = document.querySelector("figure:has([id$='-what_builds_on_what']) .scroll");
    if (map) {
        const centre = element => element.getBoundingClientRect().left + element.getBoundingClientRect().width / 2;
        const top = element => element.getBoundingClientRect().top;
        const first = [...map.querySelectorAll("text")].reduce((a, b) => (top(b) < top(a) ? b : a));
        map.scrollLeft = centre(first) - centre(map);
    }
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
