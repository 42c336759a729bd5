"""Pictures of lesson 27."""

from generator.measurements import numbers_called
from generator.picture import BLUE, GREEN, INK, ORANGE, figure, grids, picture


@picture
def order(site):
    """The same product taken both ways."""
    trace = site.trace_called("27_state")
    output = ("output", trace["plain.output"])
    return grids(
        5.6,
        (("Q K\u1d40", trace["plain.scores"]), "times", ("V", trace["values"]), "=", output),
        (("Q", trace["queries"]), "times", ("K\u1d40 V, the state", trace["plain.state"]), "=", output),
    ), "Above, queries and keys are multiplied first: five tokens, 25 scores. Below, keys and values: a state of 3 by 2 numbers, which each query then reads."  # fmt: skip


@picture
def recalled(site):
    """The share of pairs that are recalled, by the number of pairs, for two sizes of the state."""
    report = numbers_called(site, "recall")
    drawn, axes = figure(7, 2.8, columns=2, sharey=True)
    for ax, (name, title) in zip(axes, (("once", "each key is new"), ("twice", "each key is written twice"))):
        for d, style in (("16", "--"), ("64", "-")):
            pairs = list(report[name][d])
            for rule, label, colour in (("attention", "attention", INK), ("sum", "a sum", ORANGE), ("delta", "the delta rule", BLUE)):
                shares = [report[name][d][count][rule] for count in pairs]
                ax.plot(range(len(pairs)), shares, style, marker="o", markersize=3.5, color=colour, label=f"{label}, d = {d}")
        ax.set(title=title, xlabel="pairs", ylim=(-0.03, 1.05))
        ax.set_xticks(range(len(pairs)), pairs)
    axes[0].set(ylabel="share recalled")
    axes[1].legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return drawn, (
        "200 draws each. A state of 64 by 64 numbers recalls 64 new pairs, one of 16 by 16 does not; where keys are written again with other values, "
        "only the delta rule knows the last, as long as the state has room."
    )


@picture
def kept(site):
    """Numbers kept by one layer after n tokens."""
    trace = site.trace_called("27_state")
    drawn, axes = figure(5, 2.6)
    n, cache = trace["cost.n"], trace["cost.cache"]
    axes.loglog(n, cache, marker="o", markersize=4, color=ORANGE)
    axes.loglog(n, [trace["cost.state"]] * len(n), marker="o", markersize=4, color=GREEN)
    axes.annotate("a cache", (n[2], cache[2]), xytext=(-8, 4), textcoords="offset points", ha="right", color=ORANGE)
    axes.annotate("a state", (n[2], trace["cost.state"]), xytext=(0, 6), textcoords="offset points", ha="center", color=GREEN)
    axes.set(xlabel="tokens", ylabel="numbers kept by a layer")
    return drawn, f"One layer of Qwen3-Next: its state is as large as the cache of {n[0]} tokens would be, and stays so."
