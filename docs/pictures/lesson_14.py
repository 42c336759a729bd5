"""Pictures of lesson 14."""

import numpy as np
from generator.picture import BLUE, GREEN, INK, ORANGE, PURPLE, QUIET, RED, figure, heatmap, picture
from matplotlib.patches import ConnectionPatch

SIZES = (1, 4, 16, 64, 256, 1024)
RECIPES = (
    ("residual_only", "residuals, no norms", PURPLE), ("pre", "pre-norm", GREEN), ("post", "post-norm", BLUE),
    ("norm_only", "norms, no residuals", RED), ("neither", "neither", ORANGE),
)  # fmt: skip


@picture
def words(site):
    """The norm of the loss's gradient at each word, for two words that the model is asked for."""
    trace = site.trace_called("14_gradients")
    sentence = site.words("sentence")
    asked = (("he", sentence, 5, "He"), ("kite", [*sentence, "took", "the"], 8, "kite"))
    drawn, axes = figure(7.0, 2.9, columns=2, width_ratios=[7, 9])
    for place, (scope, labels, after, word) in zip(axes, asked):
        norms = trace[f"words.{scope}.norms"]
        colours = [ORANGE if i == after else BLUE for i in range(len(labels))]
        place.bar(range(len(labels)), norms, color=colours, width=0.7)
        place.set_xticks(range(len(labels)), labels, rotation=40, ha="right")
        place.set(title=f"asked for \u201c{word}\u201d after \u201c{labels[after]}\u201d", ylim=(0, 1.12 * norms.max()))
        for i, norm in enumerate(norms):
            place.text(i, norm + 0.02 * norms.max(), f"{norm:.1f}" if norm else "0", ha="center", fontsize=8)
    axes[0].set_ylabel("norm of the gradient")
    he, kite = trace["words.he.norms"], trace["words.kite.norms"]
    return drawn, (
        "The norm of the loss's gradient at each word, when the small model is asked for a word that it finds improbable; the orange "
        f"word is where the prediction is read. First: \u201cHe\u201d instead of \u201cShe\u201d; \u201cLily\u201d gets {he[0]:.1f}, and the word after "
        f"the prediction exactly 0. Second: \u201ckite\u201d instead of \u201cball\u201d; \u201cball\u201d gets {kite[4]:.1f} and \u201cLily\u201d {kite[0]:.1f}."
    )


@picture
def there_and_back(site):
    """The steps of the worked example from scores to output, and below each its gradient."""
    trace = site.trace_called("14_gradients")
    steps = ("scores", "scaled", "weights", "output")
    drawn, axes = figure(4.6, 7.2, rows=len(steps), columns=2)
    drawn.get_layout_engine().set(hspace=0.2)
    for row, name in enumerate(steps):
        heatmap(axes[row, 0], trace[name], title=name, decimals=0 if name == "scores" else 2)
        heatmap(axes[row, 1], trace[f"grad.{name}"], title=f"grad.{name}")
    below, above, right, left = (0.5, 0), (0.5, 1.2), (1, 0.5), (0, 0.5)  # above is above the title
    down = [(upper, below, lower, above) for upper, lower in zip(axes[:, 0], axes[1:, 0])]
    up = [(lower, above, upper, below) for upper, lower in zip(axes[:, 1], axes[1:, 1])]
    for first, start, second, end in [*down, (axes[-1, 0], right, axes[-1, 1], left), *up]:
        drawn.add_artist(ConnectionPatch(start, end, "axes fraction", "axes fraction", axesA=first, axesB=second,
                                         arrowstyle="-|>", color=QUIET, shrinkA=2, shrinkB=2, linewidth=1.2))  # fmt: skip
    return drawn, (
        "On the left, downwards: the steps from the scores to the output. On the right, upwards: their gradients. "
        "Each gradient has the shape of its step; negative numbers are orange. The rows of grad.scaled add up to 0."
    )


@picture
def reached_by_d_k(site):
    """The norm of each query's gradient at softmax's input, against d_k, with and without the division."""
    trace = site.trace_called("14_gradients")
    drawn, axes = figure(7.0, 3.1, columns=2, sharey=True)
    for place, scope, title, colour in ((axes[0], "unscaled", "scores as they are", ORANGE), (axes[1], "scaled", "divided by the root of d_k", BLUE)):
        norms = [trace[f"random.d_k.{d_k}.{scope}.norms"] for d_k in SIZES]
        for d_k, each in zip(SIZES, norms):
            place.plot([d_k] * len(each), np.maximum(each, 1e-12), "o", color=colour, markersize=3, alpha=0.45)
        place.plot(SIZES, [np.median(each) for each in norms], "-", color=INK, linewidth=1.4, label="median")
        place.set(xscale="log", yscale="log", xlabel="d_k, the number of features", title=title, ylim=(3e-13, 5))
        place.set_xticks(SIZES, [str(d_k) for d_k in SIZES])
        place.minorticks_off()
        place.legend(loc="lower left")
    axes[0].set_ylabel("norm of a query's gradient")
    last = trace["random.d_k.1024.unscaled.norms"]
    return drawn, (
        "The gradient at softmax's input, one dot per query, on logarithmic scales; norms below 1e-12 are drawn there. Without the division "
        f"the median falls to {np.median(last):.4f} at d_k = 1024, and {np.mean(last < 0.01):.0%} of the queries get less than 0.01. "
        f"With it the median there is {np.median(trace['random.d_k.1024.scaled.norms']):.2f}."
    )


@picture
def depth(site):
    """The norm of the gradient at each layer's input, in stacks of 6 and of 24 untrained layers."""
    trace = site.trace_called("14_gradients")
    drawn, axes = figure(7.0, 3.7, columns=2, sharey=True)
    for place, layers in zip(axes, (6, 24)):
        for name, label, colour in RECIPES:
            place.plot(range(layers + 1), trace[f"depth.{layers}.{name}.norms"], color=colour, label=label, marker="o" if layers == 6 else None, markersize=3.5)
        place.set(yscale="log", xlabel="layer", title=f"{layers} layers")
        place.set_xticks(range(0, layers + 1, layers // 6))
    axes[0].set_ylabel("norm of the gradient")
    axes[0].legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=8)
    ratio = {name: float(trace[f"depth.24.{name}.ratio"]) for name, _, _ in RECIPES}
    return drawn, (
        "The norm of the gradient at the input of each layer; the last dot is the end of the stack. Read from right to left. In these "
        f"stacks, from the end to the first layer of 24 it is multiplied by {ratio['neither']:.1e} without residuals and norms, by {ratio['residual_only']:.1e} with "
        f"residuals alone, by {ratio['post']:.2f} with post-norm and by {ratio['pre']:.1f} with pre-norm."
    )
