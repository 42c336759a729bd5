"""Pictures of lesson 18."""

import numpy as np
from generator.measurements import numbers_called
from generator.picture import BLUE, FAINT, GREEN, INK, ORANGE, QUIET, figure, picture
from matplotlib.patches import Rectangle

LESSON = "18_flash_attention"


@picture
def one_pass(site):
    """The scores of a row with the largest so far, and the sum before and after each correction."""
    trace = site.trace_called(LESSON)
    row, keys = trace["row"], range(len(trace["row"]))
    largest, corrections, sums = ([trace[f"one_pass.key.{j}.{name}"].item() for j in keys] for name in ("largest", "correction", "sum"))
    kept = [0.0, *(before * correction for before, correction in zip(sums, corrections[1:]))]
    drawn, (left, right) = figure(7, 2.9, columns=2)
    left.bar(keys, row, color=BLUE, alpha=0.7, width=0.7)
    left.step([*keys, len(row)], [*largest, largest[-1]], where="post", color=ORANGE)
    left.annotate("m, the largest so far", (len(row), largest[-1]), (-92, 5), textcoords="offset points", fontsize=8)
    left.set(title="scores", xlabel="key", xticks=keys, xlim=(-0.6, len(row) - 0.4), ylim=(0, 7.2))
    right.bar(keys, kept, color=BLUE, alpha=0.7, width=0.7, label="kept, after the correction")
    right.bar(keys, np.subtract(sums, kept), bottom=kept, color=GREEN, alpha=0.7, width=0.7, label="added")
    for j in keys:
        right.text(j, sums[j] + 0.03, f"\u00d7{corrections[j]:.2f}" if 0 < corrections[j] < 1 else "", ha="center", fontsize=8)
    right.set(title="$l$, the sum so far", xlabel="key", xticks=keys, ylim=(0, 2.3))
    right.legend(loc="upper left", fontsize=8)
    less = [j for j in keys if 0 < corrections[j] < 1]
    return drawn, (
        f"One pass over the scores {row.astype(int).tolist()}. First: each score, and the largest so far (orange). Second: the sum so far, of what is kept from before "
        f"and what a key adds. At keys {' and '.join(map(str, less))} a larger score comes, and the sum so far is multiplied by "
        f"{' and '.join(f'{corrections[j]:.4f}' for j in less)} first."
    )


@picture
def met(site):
    """The tiles of scores that a causal mask leaves to the kernel."""
    trace = site.trace_called(LESSON)
    n, rows, columns, found, skipped = (int(trace[f"kernel.{name}"]) for name in ("n", "rows", "columns", "met", "skipped"))
    drawn, axes = figure(4.2, 3.6)
    for first in range(0, n, rows):
        for begin in range(0, n, columns):
            high, wide = min(rows, n - first), min(columns, n - begin)
            is_met = begin < first + high
            axes.add_patch(Rectangle((begin, first), wide, high, facecolor=BLUE if is_met else "none", alpha=0.45 if is_met else 1, edgecolor="none"))
            axes.add_patch(Rectangle((begin, first), wide, high, fill=False, edgecolor=QUIET if is_met else FAINT, linewidth=1))
            axes.text(begin + wide / 2, first + high / 2, "computed" if is_met else "skipped", ha="center", va="center", fontsize=8 if wide > columns / 2 else 6, color=INK)
    axes.plot([0, n], [0, n], color=ORANGE, linewidth=1.4)
    axes.set(xlim=(0, n), ylim=(n, 0), aspect="equal", xlabel="key m", ylabel="query n", xticks=[*range(0, n, columns), n], yticks=[*range(0, n + 1, rows)])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return drawn, (
        f"The scores of {n} queries and {n} keys in tiles of {rows} by {columns}. A query can attend to the keys on and left of the diagonal. "
        f"{found} tiles have such a pair and are computed; {skipped} have none and are skipped."
    )


@picture
def growth(site):
    """Memory and time by length, on log axes."""
    measured = numbers_called(site, "flash")
    n = measured["n"]
    drawn, axes = figure(7, 3, columns=2)
    for place, unit, title in zip(axes, ("mib", "ms"), ("memory in MiB", "time in milliseconds")):
        for name, label, colour in (("reference", "reference", ORANGE), ("fast", "by tiles", BLUE)):
            numbers = measured[f"{name}_{unit}"]
            place.loglog(n, numbers, "o-", color=colour)
            place.annotate(label, (n[-1], numbers[-1]), (6, 0), textcoords="offset points", va="center", fontsize=8)
        place.set(title=title, xlabel="tokens n", xlim=(n[0] / 1.4, n[-1] * 4), xticks=n, xticklabels=[str(int(size)) for size in n])
        place.minorticks_off()
        place.grid(True)
    mib, ms = ([measured[f"{name}_{unit}"][-1] for name in ("reference", "fast")] for unit in ("mib", "ms"))
    return drawn, (
        f"The reference in double and the kernel in float32 on log axes, one head of 64 features, causal, one thread. At {int(n[-1])} tokens the reference "
        f"takes {mib[0]:.0f} MiB and {ms[0]:.0f} ms, the kernel {mib[1]:.1f} MiB and {ms[1]:.0f} ms. The two lines of memory have different slopes, those of time nearly the same."
    )
