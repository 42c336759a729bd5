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

// Puts an address into the address bar and copies it; the button says which of both went well, or has the address to copy.
async function copyLink(button, address) {
    const name = button.textContent;
    let instead = "this browser lets no page copy: the link is in the address bar";
    try {
        history.replaceState(null, "", address);
    } catch { // some browsers refuse for a file
        instead = address;
    }
    const isCopied = await navigator.clipboard?.writeText(address).then(() => true, () => false);
    button.textContent = isCopied ? "copied" : instead;
    setTimeout(() => { button.textContent = name; }, isCopied ? 3000 : 20000);
}
