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
    const search = document.getElementById("MSearchBox");
    const themed = getComputedStyle(document.documentElement).getPropertyValue("--searchbar-height") !== "";
    if (search === null || !themed) {
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
    // Doxygen's menu moves the search box between the narrow and the wide layout.
    const place = () => document.getElementById("MSearchBox").parentNode.append(button);
    place();
    window.addEventListener("resize", () => setTimeout(place));
});

document.addEventListener("DOMContentLoaded", () => {
    // A wide table scrolls inside a box of its own, not the page.
    for (const table of document.querySelectorAll(".contents table.markdownTable, .contents table.doxtable, .contents table.memname, .contents table.memberdecls, .contents table.fieldtable, .contents table.directory")) {
        if (table.parentElement.closest(".scroll, table") === null) {
            const box = document.createElement("div");
            box.className = "scroll";
            table.replaceWith(box);
            box.append(table);
        }
    }
    // Boxes that scroll can be reached and moved with the keyboard.
    for (const box of document.querySelectorAll(".scroll, .tensor, pre.fragment, div.fragment")) {
        box.tabIndex = 0;
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
