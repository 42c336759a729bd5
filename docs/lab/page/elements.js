// Elements of the page, made with their attributes and what stands in them. An attribute onclick is what hears a click; one that is
// false is left out, one that is true has no value.

"use strict";

function filled(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
        if (name.startsWith("on")) {
            element.addEventListener(name.slice(2), value);
        } else if (value !== false) {
            element.setAttribute(name, value === true ? "" : value);
        }
    }
    element.append(...children);
    return element;
}

function html(tag, attributes = {}, ...children) {
    return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
    return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

// Puts an address into the address bar and copies it; the button says which of both went well.
async function copyLink(button, address) {
    const name = button.textContent;
    try {
        history.replaceState(null, "", address);
    } catch { /* some browsers refuse for a file */ }
    try {
        await navigator.clipboard.writeText(address);
        button.textContent = "copied";
    } catch {
        button.textContent = "this browser lets no page copy: the link is in the address bar";
    }
    setTimeout(() => { button.textContent = name; }, 3000);
}
