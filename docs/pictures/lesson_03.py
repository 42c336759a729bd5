"""Pictures of lesson 3."""

from generator.picture import BLUE, GREEN, ORANGE, figure, picture

SIZES = (4, 16, 64, 256, 1024)
LINES = (("", "scores as they are", ORANGE), ("by_root.", "divided by the root of d_k", BLUE), ("by_d_k.", "divided by d_k", GREEN))


@picture
def saturation(site):
    """Softmax of one row of scores, and of 4 and 16 times that row."""
    trace = site.trace_called("03_scale_and_softmax")
    drawn, axes = figure(6.5, 2.4, columns=3, sharey=True)
    for place, factor in zip(axes, (1, 4, 16)):
        weights = trace[f"times.{factor}.weights"]
        place.bar(range(3), weights, color=BLUE, width=0.7)
        place.set(title=f"softmax of {trace[f'times.{factor}.scores'].astype(int).tolist()}", xticks=range(3), ylim=(0, 1.1))
        place.set_xlabel("key m")
        for j, weight in enumerate(weights):
            place.text(j, weight + 0.02, f"{weight:.3f}", ha="center", fontsize=8)
    axes[0].set_ylabel("weight")
    first, last = trace["times.1.weights"], trace["times.16.weights"]
    return drawn, (
        f"Softmax saturates: the largest weight is {first[2]:.3f} for the scores 1, 2, 3 and {last[2]:.7f} for 16 times these scores."
    )


@picture
def slope_against_d_k(site):
    """Softmax's slope and largest weight against d_k: without division, by the root, by d_k."""
    trace = site.trace_called("03_scale_and_softmax")
    drawn, axes = figure(7, 3, columns=2)
    for place, measured, title in ((axes[0], "slope", "slope of softmax"), (axes[1], "largest", "largest weight of 64")):
        for scope, label, colour in LINES:
            place.plot(SIZES, [trace[f"d_k.{d_k}.{scope}{measured}"].item() for d_k in SIZES], "o-", color=colour, label=label)
        place.set(xscale="log", xlabel="d_k, the number of features", title=title, ylim=(0, 1.05))
        place.set_xticks(SIZES, [str(d_k) for d_k in SIZES])
        place.minorticks_off()
    axes[1].legend(loc="lower right", bbox_to_anchor=(1.02, 0.16))
    return drawn, (
        f"The slope of softmax is averaged over 64 queries. Without division it falls from {trace['d_k.4.slope']:.2f} at d_k = 4 "
        f"to {trace['d_k.1024.slope']:.2f} at d_k = 1024; divided by the root of d_k it stays at {trace['d_k.1024.by_root.slope']:.2f}. "
        f"The largest weight of 64 keys, at d_k = 1024, is {trace['d_k.1024.largest']:.2f} without division, "
        f"{trace['d_k.1024.by_root.largest']:.2f} divided by the root and {trace['d_k.1024.by_d_k.largest']:.2f} divided by d_k."
    )
