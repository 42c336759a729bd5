"""Pictures of lesson 9."""

import math

import numpy as np
from generator.picture import BLUE, FAINT, GREEN, INK, ORANGE, QUIET, figure, picture


@picture
def activations(site):
    """ReLU and GELU as curves, with the hidden units of the run on them."""
    trace = site.trace_called("09_feed_forward_and_norm")
    hidden, relu, gelu = (trace[f"feed_forward.{step}"].ravel() for step in ("hidden", "activated", "gelu.activated"))
    x = np.linspace(-4, 4, 161)
    drawn, axes = figure(6.0, 3.2)
    axes.plot(x, np.maximum(x, 0), color=BLUE, label="ReLU")
    axes.plot(x, [0.5 * value * (1 + math.erf(value / math.sqrt(2))) for value in x], color=ORANGE, label="GELU")
    axes.plot(hidden, relu, "o", color=BLUE, markersize=4)
    axes.plot(hidden, gelu, "o", color=ORANGE, markersize=4)
    axes.set(xlabel="hidden unit, before the activation", ylabel="after it")
    axes.grid(color=FAINT, linewidth=0.6)
    axes.legend()
    unit = int(np.argmax(hidden < 0))
    return drawn, (
        f"ReLU and GELU; the dots are the {hidden.size} hidden units of this run. For negative numbers ReLU is 0, and GELU is slightly negative: "
        f"{hidden[unit]:.1f} becomes {relu[unit]:.0f} by ReLU and {gelu[unit]:.4f} by GELU."
    )


@picture
def norm_of_a_row(site):
    """One token's features on their way through layer norm."""
    trace = site.trace_called("09_feed_forward_and_norm")
    token = 1
    row, mean, variance = trace["residual"][token], float(trace["norm.mean"][token]), float(trace["norm.variance"][token])
    stages = [
        ("row x", row), ("x − mean", row - mean), ("divided by the\nstandard deviation", trace["norm.normalized"][token]),
        ("times gain,\nplus bias", trace["norm.output"][token]),
    ]  # fmt: skip
    drawn, axes = figure(7.0, 2.9, columns=len(stages), sharey=True)
    for place, (title, values) in zip(axes, stages):
        place.bar(range(len(values)), values, color=[BLUE if value >= 0 else ORANGE for value in values], alpha=0.85)
        place.axhline(0, color=QUIET, linewidth=0.8)
        place.set_xticks(range(len(values)))
        place.set_title(title)
        place.set_xlabel("feature")
    axes[0].axhline(mean, color=INK, linewidth=1.2, linestyle="--")
    return drawn, (
        f"Layer norm of token {token}. Its features have the mean {mean:.4f} (dashed) and the variance {variance:.4f}; after the third step they "
        f"have mean 0 and variance 1. The gain {_listed(trace['gain'])} and the bias {_listed(trace['bias'])} are learned."
    )


def _listed(numbers):
    return "(" + ", ".join(f"{number:g}" for number in numbers) + ")"


@picture
def sizes_by_depth(site):
    """How large features are after each of six blocks."""
    trace = site.trace_called("09_feed_forward_and_norm")
    depths = range(1, 7)
    drawn, axes = figure(6.0, 3.0)
    for scope, label, colour in (("bare", "no norm", ORANGE), ("pre", "pre-norm", GREEN), ("post", "post-norm", BLUE)):
        axes.plot(depths, [trace[f"{scope}.block.{depth}.size"] for depth in depths], "o-", color=colour, label=label)
    axes.set_yscale("log")
    axes.set(xlabel="blocks", ylabel="root of the mean square")
    axes.legend()
    last = {scope: float(trace[f"{scope}.block.6.size"]) for scope in ("bare", "pre", "post")}
    return drawn, (
        f"The size of a feature after each block, on a logarithmic scale. After six blocks it is {last['bare']:.0f} without a norm, "
        f"{last['pre']:.2f} with pre-norm and {last['post']:.2f} with post-norm."
    )
