// Ring attention, hop by hop: the queries stay, the keys and values go round, and a causal mask leaves some ranks without work. Lesson 19.

"use strict";

moving.stages("ring", stage => {
    const state = moving.state(stage, { hop: 0, order: 0 });
    const words = ["Lily", "had", "a", "red", "ball", ".", "She", "took"], ranks = 4, colours = ["--attn-blue", "--attn-orange", "--attn-green", "--attn-purple"];
    const at = rank => [150 - 112 * Math.cos(2 * Math.PI * (rank + 0.5) / ranks), 120 - 80 * Math.sin(2 * Math.PI * (rank + 0.5) / ranks)];

    // A rank's own words stand still; the block of keys and values that began there goes round.
    const homes = Array.from({ length: ranks }, (_, rank) => {
        const [x, y] = at(rank);
        return svg("g", { transform: `translate(${x} ${y})` }, svg("rect", { x: -58, y: -32, width: 116, height: 64, rx: 8, class: "axis" }),
            svg("text", { y: -17, "text-anchor": "middle", class: "number" }, `rank ${rank}`), svg("text", { y: -1, "text-anchor": "middle", class: "own" }));
    });
    const blocks = Array.from({ length: ranks }, (_, rank) => svg("g", { class: "block" },
        svg("rect", { x: -50, y: 6, width: 100, height: 20, rx: 5, style: `fill: var(${colours[rank]})` }), svg("text", { y: 20, "text-anchor": "middle" })));
    const arrows = homes.map((_, rank) => {
        const [[x, y], [u, v]] = [at(rank), at((rank + 1) % ranks)];
        return svg("text", { transform: `translate(${(x + u) / 2} ${(y + v) / 2}) rotate(${Math.atan2(v - y, u - x) * 180 / Math.PI})`, "text-anchor": "middle", "dominant-baseline": "central", class: "number" }, "→");
    });
    const ring = svg("svg", { viewBox: "-10 20 320 200", role: "img", "aria-label": "a ring of ranks" }, ...homes, ...arrows, ...blocks);
    const table = html("table", { class: "tensor-values" }), note = html("p", { role: "status" });

    const compute = moving.steady(stage, async () => {
        const { results } = await lab.ask({
            do: "evaluate",
            given: { ranks: moving.array([], [ranks]), hop: moving.array([], [state.hop]) },
            formulas: {
                n: `arange(${words.length})`, r: `arange(${ranks})`,
                chunk: "floor(n * 2 * ranks / n.shape[0])",
                rank_of: state.order === 0 ? "floor(chunk / 2)" : "minimum(chunk, 2 * ranks - 1 - chunk)",
                pairs: "1 * (r[:, None] == rank_of[None, :]) @ (n[None, :] <= n[:, None]) @ (rank_of[:, None] == r[None, :])",
                hops: "(r[:, None] - r[None, :]) - ranks * floor((r[:, None] - r[None, :]) / ranks)", // at which each rank has the keys of each
                sources: "(r - hop) - ranks * floor((r - hop) / ranks)",
                scores: "sum(pairs * (sources[:, None] == r[None, :]), axis=1)",
                busiest: "max(where(hops[None, :, :] == r[:, None, None], pairs[None, :, :], 0), axis=2)",
                waited: "sum(where(r <= hop, max(busiest, axis=1), 0))",
            },
        });
        const value = Object.fromEntries(Object.entries(results).map(([name, { values }]) => [name, values.map(Number)]));
        const wordsOf = rank => words.filter((_, i) => value.rank_of[i] === rank).join(" ");
        homes.forEach((home, rank) => { home.querySelector(".own").textContent = wordsOf(rank); });
        blocks.forEach((block, rank) => {
            const [x, y] = at(value.sources.indexOf(rank));
            block.style.transform = `translate(${x}px, ${y}px)`;
            block.querySelector("text").textContent = wordsOf(rank);
        });
        ring.setAttribute("aria-label", value.sources.map((source, rank) => `rank ${rank}, with the queries of ${wordsOf(rank)}, has the keys of ${wordsOf(source)}`).join("; "));
        const row = rank => value.pairs.slice(rank * ranks, (rank + 1) * ranks);
        table.replaceChildren(html("tr", {}, html("th", {}, "queries"), ...homes.map((_, rank) => html("th", {}, `keys ${rank}`)), html("th", {}, "now")), ...homes.map((_, rank) => html("tr", {}, html("th", {}, rank),
            ...row(rank).map((count, source) => {
                const hop = value.hops[rank * ranks + source];
                return html("td", { class: hop === state.hop ? "now" : "", style: hop <= state.hop && count > 0 ? `background: color-mix(in srgb, var(${colours[source]}) 45%, transparent)` : "" }, hop > state.hop ? "" : count);
            }), html("td", {}, value.scores[rank] === 0 ? "waits" : value.scores[rank]))));
        const waiting = value.scores.filter(scores => scores === 0).length;
        note.textContent = `Hop ${state.hop}: the busiest rank computes ${Math.max(...value.scores)} scores${waiting > 0 ? `, ${waiting} wait${waiting === 1 ? "s" : ""} for it` : ""}; the hops so far take as long as ${value.waited[0]} scores.${
            state.hop === ranks - 1 ? " Every query has met every key that it may see." : ""}`;
        walk.show();
    });
    const walk = moving.steps(state, "hop", () => ranks - 1, () => compute(), ["hop back", "next hop"]);
    stage.append(html("p", { class: "controls" }, walk.element, moving.choice(state, "order", ["plain order", "zigzag"], () => compute())),
        html("div", { class: "ring" }, ring), html("div", { class: "scroll" }, table), note);
});
