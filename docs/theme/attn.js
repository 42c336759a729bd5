// Light or dark: as the system prefers, until the reader chooses. The classes are doxygen-awesome's.
const systemScheme = window.matchMedia("(prefers-color-scheme: dark)");

function applyScheme() {
    const chosen = localStorage.getItem("attn-scheme");
    const dark = chosen ? chosen === "dark" : systemScheme.matches;
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
        if (dark === systemScheme.matches) {
            localStorage.removeItem("attn-scheme");
        } else {
            localStorage.setItem("attn-scheme", dark ? "dark" : "light");
        }
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

// A table that scrolls anyway gets more room for its words.
function widen(box) {
    box.classList.remove("wide");
    box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 1);
}

// The end of a box fades where it goes on.
function mark(box) {
    box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
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
    document.querySelectorAll(".contents div.fragment").forEach(dedent);
    const resized = new ResizeObserver(entries => entries.forEach(entry => {
        widen(entry.target);
        mark(entry.target);
    }));
    for (const box of document.querySelectorAll(".scroll, pre.fragment, div.fragment")) {
        box.tabIndex = 0; // reached and moved with the keyboard
        box.addEventListener("scroll", () => mark(box), { passive: true });
        resized.observe(box);
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
