// What a cache keeps of each token, for heads, groups and a latent of the reader's choice. Lesson 24.

"use strict";

for (const stage of moving.stages("caches")) {
    const choice = { heads: 32, groups: 32, latent: 512, tokens: 8192 };
    const bars = html("div", { class: "bars", role: "img" }), note = html("p", { role: "status" });
    const compute = moving.steady(stage, async () => {
        const given = Object.fromEntries(Object.entries(choice).map(([name, value]) => [name, moving.array([], [value])]));
        given.groups.values = [Math.min(choice.groups, choice.heads)];
        const { results } = await lab.ask({
            do: "evaluate",
            given,
            formulas: {
                own: "32 * heads * 2 * 128 * 2 * tokens / 2 ** 30",
                shared: "32 * groups * 2 * 128 * 2 * tokens / 2 ** 30",
                latents: "32 * (latent + 64) * 2 * tokens / 2 ** 30",
            },
        });
        const sizes = [["own keys and values", results.own], ["shared by groups", results.shared], ["latent, rotary key", results.latents]]
            .map(([name, { values }]) => [name, values[0]]);
        const largest = Math.max(...sizes.map(([, size]) => size));
        bars.setAttribute("aria-label", sizes.map(([name, size]) => `${name} ${size.toFixed(2)} GiB`).join(", "));
        bars.replaceChildren(...sizes.map(([name, size]) => html("div", { class: "bar", style: `--share: ${size / largest}` },
            html("span", {}, `${numberText(size, ".2f", "real")} GiB`), html("i"), html("small", {}, name))));
        note.textContent = `32 layers, 128 features per head, 2 bytes per number, a rotary key of 64 features: groups keep ${
            numberText(sizes[1][1] / sizes[0][1], ".3f", "real")} of what every head's own keys and values take, the latent ${numberText(sizes[2][1] / sizes[0][1], ".3f", "real")}.`;
    });
    const power = (label, name, min, max) => moving.slider(label, { min, max, step: 1, value: Math.log2(choice[name]) }, (value, output) => {
        choice[name] = 2 ** value;
        output.textContent = choice[name];
        compute();
    });
    stage.append(
        html("p", { class: "controls" }, power("heads", "heads", 0, 7), power("groups", "groups", 0, 7), power("latent width", "latent", 4, 11), power("tokens", "tokens", 8, 17)),
        bars, note);
}
