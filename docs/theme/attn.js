// The toggle for light and dark, where the theme has one.
if (typeof DoxygenAwesomeDarkModeToggle !== "undefined") {
    DoxygenAwesomeDarkModeToggle.init();
}

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
