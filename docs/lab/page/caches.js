// What a cache keeps of each token, for heads, groups and a latent of the reader's choice. Lesson 24.

"use strict";

moving.stages("caches", stage => {
    const powers = moving.state(stage, { heads: 5, groups: 3, latent: 9, tokens: 13 }); // of two
    const bars = html("div", { class: "bars three", role: "img", "aria-label": "what a cache keeps" }), note = html("p", { role: "status" });
    const compute = moving.steady(stage, async () => {
        const given = Object.fromEntries(Object.entries(powers).map(([name, power]) => [name, moving.array([], [2 ** power])]));
        const { results } = await lab.ask({
            do: "evaluate",
            given,
            formulas: {
                shared_by: "minimum(groups, heads)",
                own: "32 * heads * 2 * 128 * 2 * tokens / 2 ** 30",
                shared: "32 * shared_by * 2 * 128 * 2 * tokens / 2 ** 30",
                latents: "32 * (latent + 64) * 2 * tokens / 2 ** 30",
            },
        });
        const groups = results.shared_by.values[0];
        const sizes = [["each head its own", results.own], [`${groups} for all heads`, results.shared], ["a latent, a rotary key", results.latents]]
            .map(([name, { values }]) => [name, values[0]]);
        const largest = Math.max(...sizes.map(([, size]) => size));
        bars.setAttribute("aria-label", sizes.map(([name, size]) => `${name} ${size.toFixed(2)} GiB`).join(", "));
        bars.replaceChildren(...sizes.map(([name, size]) => html("div", { class: "bar", style: `--share: ${size / largest}` },
            html("span", {}, `${numberText(size, ".2f", "real")} GiB`), html("i"), html("small", {}, name))));
        note.textContent = `32 layers, 128 features per head, 2 bytes per number, a rotary key of 64 features: ${groups} heads of keys and values take ${
            numberText(sizes[1][1] / sizes[0][1], ".3f", "real")} of what each head's own take, the latent ${numberText(sizes[2][1] / sizes[0][1], ".3f", "real")}.`;
    });
    const power = (label, name, min, max) => moving.knob(powers, name, label, { min, max, step: 1 }, compute, value => String(2 ** value));
    stage.append(
        html("p", { class: "controls" },
            power("heads with keys and values", "groups", 0, 7), power("heads with queries", "heads", 0, 7), power("latent width", "latent", 4, 11), power("tokens", "tokens", 8, 17)),
        bars, note);
});
