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
        const output = html("output");
        const input = html("input", { type: "range", ...attributes });
        input.addEventListener("input", () => changed(Number(input.value), output));
        changed(Number(input.value), output);
        return html("label", {}, `${label} `, input, " ", output);
    },

    array(shape, values) {
        return { shape, values: [...values], type: "real" };
    },
};
