// A query in the plane, dragged among three keys: scores, weights and the output follow. Lessons 1 and 2.

"use strict";

moving.stages("plane", stage => {
    const names = ["Lily", "had", "ball"], colours = ["--attn-blue", "--attn-orange", "--attn-green"];
    const keys = [[1.6, 1.2], [-1.8, 0.6], [0.4, -1.9]], values = [[0, 2], [-1.8, -1.2], [1.8, -1.2]];
    const count = Number(stage.parentElement.dataset.queries ?? 1);
    const state = moving.state(stage, { queries: [1.2, 1.8, -1.4, -0.6, 1.2, -0.8].slice(0, 2 * count), way: "softmax" });
    const queries = Array.from({ length: count }, (_, n) => limited(state.queries.slice(2 * n, 2 * n + 2)));
    const unit = 46, middle = 150; // a unit of the plane, and its origin, in pixels

    const x = value => middle + unit * value, y = value => middle - unit * value;
    const place = (element, [a, b]) => element.setAttribute("transform", `translate(${x(a)} ${y(b)})`);
    const paint = colour => `fill: var(${colour})`;
    const way = html("select", { onchange: () => { state.way = way.value; compute(); } },
        ...Object.entries({ softmax: "softmax(scores)", sum: "scores / sum(scores)" }).map(([value, text]) => html("option", { value, selected: value === state.way }, text)));
    const formulas = { softmax: "softmax(scores)", sum: "scores / sum(scores, axis=-1, keepdims=True)" };
    const numbers = html("table", { class: "tensor-values" }), note = html("p", { role: "status" });

    function plane(title, ...children) { // a group, since its handles are moved
        return svg("svg", { viewBox: "0 0 300 320", role: "group", "aria-label": title },
            svg("line", { x1: 0, x2: 300, y1: middle, y2: middle, class: "axis" }), svg("line", { y1: 0, y2: 300, x1: middle, x2: middle, class: "axis" }),
            svg("text", { x: 150, y: 316, "text-anchor": "middle" }, title), ...children);
    }

    const spokes = queries.map(() => keys.map((key, j) => svg("line", { x1: x(0), y1: y(0), x2: x(key[0]), y2: y(key[1]), style: `stroke: var(${colours[j]})` })));
    const dots = keys.map((key, j) => svg("g", {}, svg("circle", { r: 6, style: paint(colours[j]) }), svg("text", { x: 9, y: 4 }, `key of ${names[j]}`)));
    dots.forEach((dot, j) => place(dot, keys[j]));
    const arms = queries.map(() => svg("line", { x1: x(0), y1: y(0), class: "arm" }));
    const handles = queries.map((query, n) => svg("g", { tabindex: 0, class: "handle", role: "slider", "aria-label": `query ${n}, moved by the arrow keys`, "aria-valuenow": 0, "aria-valuetext": "" },
        svg("circle", { r: 22, class: "room" }), svg("circle", { r: 8 }), svg("text", { x: 11, y: -8 }, count > 1 ? `query ${n}` : "query")));
    const left = plane("queries and keys", ...spokes[0], ...dots, ...arms, ...handles);

    const triangle = svg("polygon", { points: values.map(([a, b]) => `${x(a)},${y(b)}`).join(" "), class: "triangle" });
    const corners = values.map(([a, b], j) => svg("g", {}, svg("circle", { r: 6, style: paint(colours[j]) }), svg("text", { x: b > 0 ? 10 : -14, y: b > 0 ? 4 : 20 }, `value of ${names[j]}`)));
    corners.forEach((corner, j) => place(corner, values[j]));
    const outputs = queries.map((_, n) => svg("g", {}, svg("circle", { r: 8, class: "output" }), svg("text", { x: 11, y: -8 }, count > 1 ? `output ${n}` : "output")));
    const right = plane("values and output", triangle, ...corners, ...outputs);
    stage.append(html("p", { class: "controls" }, html("label", {}, "weights = ", way)), html("div", { class: "planes" }, left, right), html("div", { class: "scroll" }, numbers), note);

    queries.forEach((query, n) => placeQuery(query, n));
    const compute = moving.steady(stage, async () => {
        if (!Object.hasOwn(formulas, state.way)) {
            throw new Error(`the link has the way ${quotedText(state.way)}, expected ${Object.keys(formulas).join(" or ")}`);
        }
        const { results } = await lab.ask({
            do: "evaluate",
            given: { queries: moving.array([count, 2], queries.flat()), keys: moving.array([3, 2], keys.flat()), values: moving.array([3, 2], values.flat()) },
            formulas: {
                scores: "queries @ keys.T",
                weights: formulas[state.way],
                output: "weights @ values",
            },
        });
        show(results);
    });

    function show({ scores, weights, output }) {
        const row = (array, n, width) => array.values.slice(n * width, (n + 1) * width).map(Number);
        const lines = [];
        let worst = null;
        queries.forEach((query, n) => {
            placeQuery(query, n);
            const [s, w, o] = [row(scores, n, 3), row(weights, n, 3), row(output, n, 2)];
            const reach = o.map(value => Math.max(-3.1, Math.min(3.1, Number.isFinite(value) ? value : 0)));
            place(outputs[n], reach);
            beside(outputs[n], reach[0], n);
            outputs[n].classList.toggle("outside", String(reach) !== String(o));
            if (n === 0) {
                spokes[0].forEach((spoke, j) => {
                    spoke.style.strokeWidth = `${Math.max(0.5, Math.min(10, 10 * Math.abs(w[j])))}px`;
                });
            }
            const which = count > 1 ? ` of query ${n}` : "";
            for (const [name, part, digits] of [["score", s, 2], ["weight", w, 3]]) {
                const cells = part.map(value => `<td class="${name === "weight" && value >= 0 && value <= 1 ? `share-${Math.round(10 * value)}` : ""}">${numberText(value, `.${digits}f`, "real")}</td>`);
                lines.push(`<tr><th>${name}${which}</th>${cells.join("")}</tr>`);
            }
            if (w.some(value => !(value >= 0))) {
                worst = n;
            }
        });
        numbers.innerHTML = `<tr><th></th>${names.map(name => `<th>${name}</th>`).join("")}</tr>${lines.join("")}`;
        note.textContent = worst === null ? "All weights are positive and sum to 1: the output lies inside the triangle of the values."
            : "A weight is negative: its score has another sign than the sum of all. The output leaves the triangle, although the weights sum to 1.";
    }

    function placeQuery(query, n) {
        place(handles[n], query);
        handles[n].setAttribute("aria-valuetext", query.map(value => value.toFixed(1)).join(", "));
        arms[n].setAttribute("x2", x(query[0]));
        arms[n].setAttribute("y2", y(query[1]));
        beside(handles[n], query[0], 0);
    }

    // A name stands to the left of what is moved, since those of the dots stand to the right; at the left edge it has no room there.
    function beside(group, at, line) {
        const name = group.querySelector("text"), isLeft = at > -1;
        name.setAttribute("x", isLeft ? -11 : 11);
        name.setAttribute("y", -8 + 14 * line);
        name.setAttribute("text-anchor", isLeft ? "end" : "start");
    }

    function limited(point) {
        return point.map(value => Math.max(-3, Math.min(3, Math.round(value * 20) / 20)));
    }

    function move(n, to) {
        queries[n] = limited(to);
        state.queries = queries.flat();
        compute();
    }

    handles.forEach((handle, n) => {
        const drag = event => {
            const box = left.getBoundingClientRect(), scale = 300 / box.width;
            move(n, [((event.clientX - box.left) * scale - middle) / unit, (middle - (event.clientY - box.top) * scale) / unit]);
        };
        handle.addEventListener("pointerdown", event => {
            handle.setPointerCapture(event.pointerId);
            handle.addEventListener("pointermove", drag);
        });
        for (const end of ["pointerup", "pointercancel"]) {
            handle.addEventListener(end, () => handle.removeEventListener("pointermove", drag));
        }
        handle.addEventListener("keydown", event => {
            const by = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[event.key];
            if (by) {
                event.preventDefault();
                move(n, queries[n].map((value, i) => value + by[i]));
            }
        });
    });
    compute();
});
