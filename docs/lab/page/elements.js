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
