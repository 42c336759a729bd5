"""Pictures of lesson 16."""

import numpy as np
from generator.picture import BLUE, CYCLE, FAINT, ORANGE, figure, heatmap, picture

LESSON = "16_rotary_and_alibi"


def arrows(axes, points, title):
    """Each row of points as an arrow from the middle of a circle, labelled with its position."""
    around = np.linspace(0, 2 * np.pi, 100)
    axes.plot(np.cos(around), np.sin(around), color=FAINT, linewidth=1)
    for position, (x, y) in enumerate(points):
        axes.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": CYCLE[position % 5], "shrinkA": 0, "shrinkB": 0})
        if np.abs(points - points[0]).max() > 0.1 or position in (0, len(points) - 1):
            axes.annotate(f"p = {position}", (x, y), (1.28 * x, 1.22 * y + 0.12 * position * (np.abs(points - points[0]).max() < 0.1)), ha="center", va="center", fontsize=9)
    axes.set(xlim=(-1.6, 1.6), ylim=(-1.35, 1.35), aspect="equal", title=title)
    axes.axis("off")


@picture
def turning(site):
    """One token at four positions: what each pair of its features becomes."""
    trace = site.trace_called(LESSON)
    turned, frequencies, scores = trace["turned.output"], trace["turned.frequencies"], trace["turned.scores"]
    drawn, (fast, slow) = figure(6.6, 2.9, columns=2)
    arrows(fast, turned[:, 0:2], f"features 0 and 1: {frequencies[0]:g} radian per position")
    arrows(slow, turned[:, 2:4], f"features 2 and 3: {frequencies[1]:g} radian per position")
    return drawn, (
        f"The same token {trace['turned.x'][0].astype(int).tolist()} at positions 0 to {len(turned) - 1}, rotated. The first pair of features turns by "
        f"{frequencies[0]:g} radian per position, the second by {frequencies[1]:g}. The angle between the arrows of positions 0 and 1 equals the angle "
        f"between those of 2 and 3, so both scores are {scores[0, 1]:.4f}."
    )


@picture
def by_distance(site):
    """The scores of equal tokens by their positions: added sinusoids, and rotary."""
    trace = site.trace_called(LESSON)
    added, turned = trace["added.scores"], trace["turned.scores"]
    drawn, axes = figure(6.2, 2.9, columns=2)
    places = [f"p = {i}" for i in range(len(added))]
    heatmap(axes[0], added, places, places, title="sinusoids added", numbers=True)
    heatmap(axes[1], turned, places, places, title="rotary", numbers=True)
    return drawn, (
        f"Scores of equal tokens at four positions. With added sinusoids, tokens that are one position apart score {added[0, 1]:.2f}, {added[1, 2]:.2f} or "
        f"{added[2, 3]:.2f}, depending on where they stand. With rotary, each diagonal has one number: {turned[0, 1]:.2f} for a distance of one."
    )


@picture
def alibi(site):
    """The bias of one head, and the bias of eight heads by distance."""
    trace = site.trace_called(LESSON)
    bias, slopes = trace["with_alibi.head.0.bias"], trace["slopes"]
    drawn, (left, right) = figure(7, 3, columns=2, width_ratios=(1, 1.25))
    places = [str(i) for i in range(len(bias))]
    heatmap(left, bias + 0.0, places, places, title="bias of head 0 of 2", numbers=True, decimals=4)
    distances = np.arange(17)
    for head, slope in enumerate(slopes):
        right.plot(distances, -slope * distances, color=BLUE if head else ORANGE, alpha=1 - 0.09 * head)
        if head < 4:
            right.annotate(f"head {head}", (16, -slope * 16), (4, 0), textcoords="offset points", va="center", fontsize=8)
    right.annotate("heads 4–7", (16, -slopes[5] * 16), (4, 0), textcoords="offset points", va="center", fontsize=8)
    right.set(xlabel="distance |n − m|", ylabel="bias", title="bias of 8 heads", xlim=(0, 19.5), xticks=range(0, 17, 4))
    return drawn, (
        f"ALiBi. First: the bias of the first of two heads on four tokens; a key that is one position away loses {-bias[0, 1]:.4f}. Second: with eight heads, "
        f"head 0 loses {slopes[0]:g} per position and so prefers near keys; head 7 loses {slopes[7]:.6f} and hardly distinguishes distances."
    )
