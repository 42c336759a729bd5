// What pictures that the reader moves have in common.

"use strict";

const moving = {
    // The stages of a name on this page, shown from now on, and what computes in them.
    stages(name) {
        return [...document.querySelectorAll(`.moving[data-moving="${name}"]`)].map(box => {
            box.hidden = false;
            return box.querySelector(".stage");
        });
    },

    html(tag, attributes = {}, ...children) {
        return moving.fill(document.createElement(tag), attributes, children);
    },

    svg(tag, attributes = {}, ...children) {
        return moving.fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
    },

    fill(element, attributes, children) {
        for (const [name, value] of Object.entries(attributes)) {
            if (name.startsWith("on")) {
                element.addEventListener(name.slice(2), value);
            } else {
                element.setAttribute(name, value);
            }
        }
        element.append(...children);
        return element;
    },

    // Computes again whenever asked, one after the other, from when the stage is seen; what was asked for in between counts as
    // asked once.
    steady(stage, compute) {
        const seen = new Promise(resolve => new IntersectionObserver((entries, observer) => {
            if (entries.some(entry => entry.isIntersecting)) {
                observer.disconnect();
                resolve();
            }
        }, { rootMargin: "200px" }).observe(stage.parentElement));
        let running = false, again = false;
        return async () => {
            if (running) {
                again = true;
                return;
            }
            running = true;
            do {
                await seen;
                again = false;
                await compute();
            } while (again);
            running = false;
        };
    },

    slider(label, attributes, changed) {
        const output = moving.html("output");
        const input = moving.html("input", { type: "range", ...attributes });
        input.addEventListener("input", () => changed(Number(input.value), output));
        changed(Number(input.value), output);
        return moving.html("label", {}, `${label} `, input, " ", output);
    },

    array(shape, values) {
        return { shape, values: [...values], type: "real" };
    },
};
