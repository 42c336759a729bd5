"""Pictures of lesson 20."""

from generator.picture import BLUE, GREEN, ORANGE, figure, heatmap, picture

LESSON = "20_restricted"


@picture
def band(site):
    """The weights as a band, and the same weights in a full matrix."""
    trace = site.trace_called(LESSON)
    weights, full, distances = trace["weights"], trace["full.weights"], trace["distances"]
    drawn, (left, right) = figure(7, 3.6, columns=2, width_ratios=(3.4, 8))
    rows = [f"n = {i}" for i in range(len(weights))]
    heatmap(left, weights, rows, [f"{int(d):+d}" if d else "0" for d in distances], title="band: by distance", numbers=True)
    heatmap(right, full, rows, [str(i) for i in range(full.shape[1])], title="full matrix with a mask: by key", numbers=True)
    return drawn, (
        f"The same weights twice, for radius r = 1. First: a column per distance, {weights.size} numbers. Second: a column per key, {full.size} numbers, of which "
        f"{trace['full.wasted'].item():.0%} are zero. Token 3 gives itself {weights[3, 1]:.2f} in both."
    )


@picture
def neighbourhoods(site):
    """Which keys each query can attend to: local, strided, both."""
    trace = site.trace_called(LESSON)
    drawn, axes = figure(7, 2.7, columns=3)
    counts = {}
    for place, name in zip(axes, ("local", "strided", "both")):
        mask = trace[f"reach.{name}.mask"].astype(float)
        places = [str(i) for i in range(len(mask))]
        heatmap(place, mask, places, places, title=name, numbers=False)
        counts[name] = int(mask[0].sum())
    return drawn, (
        "Which keys (columns) each query (row) can attend to: within distance 1, every third, and both. Token 0 has "
        + ", ".join(f"{count} ({name})" for name, count in counts.items()) + " keys."
    )  # fmt: skip


@picture
def cost(site):
    """Multiplications and memory by length, on log axes."""
    trace = site.trace_called(LESSON)
    n = trace["cost.n"]
    drawn, (left, right) = figure(7, 3, columns=2)
    for name, colour in (("full", ORANGE), ("strided", GREEN), ("local", BLUE)):
        left.loglog(n, trace[f"cost.{name}"], marker="o", color=colour)
        exponent = trace[f"cost.{name}_exponent"].item()
        place, offset = (1, (8, -8)) if name == "strided" else (-1, (6, 0))  # strided and local meet at the end
        left.annotate(f"{name}\n$n^{{{exponent:.2f}}}$", (n[place], trace[f"cost.{name}"][place]), offset, textcoords="offset points", va="center", fontsize=8)
    for name, colour in (("full", ORANGE), ("local", BLUE)):
        right.loglog(n, trace[f"cost.{name}_mib"], marker="o", color=colour)
        right.annotate(name, (n[-1], trace[f"cost.{name}_mib"][-1]), (6, 0), textcoords="offset points", va="center", fontsize=8)
    for place, title in ((left, "multiplications"), (right, "MiB of weights")):
        place.set(title=title, xlabel="tokens n", xlim=(n[0] / 1.4, n[-1] * 4), xticks=n, xticklabels=[str(int(size)) for size in n])
        place.minorticks_off()
        place.grid(True)
    return drawn, (
        f"Full, strided and local attention on log axes, {int(trace['cost.d'])} features, {int(trace['cost.r'])} neighbours on each side. At {int(n[-1])} tokens, full attention "
        f"takes {trace['cost.full'][-1] / trace['cost.local'][-1]:.0f} times the multiplications of local attention and {trace['cost.full_mib'][-1]:.0f} MiB for its weights, "
        f"local attention {trace['cost.local_mib'][-1]:.1f} MiB."
    )
