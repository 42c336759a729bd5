"""Pictures of lesson 26."""

import numpy as np

from generator.measurements import numbers_called
from generator.picture import BLUE, GREEN, ORANGE, figure, heatmap, picture


@picture
def routing(site):
    """Which experts each word of the story gets, in both layers."""
    trace, words = site.trace_called("26_experts"), site.vocabulary("mixture")
    said = words.of(trace["ids"])
    drawn, axes = figure(7, 3.6, columns=2)
    for layer, ax in enumerate(axes):
        weights = trace[f"balanced.layers.{layer}.feed_forward.weights"]
        heatmap(ax, weights, said if layer == 0 else (), list(map(str, range(weights.shape[1]))), title=f"layer {layer}", largest=1, decimals=2, numbers=False)
        ax.set(xlabel="expert")
    return drawn, (
        "The weights of the two experts that each word has, a row for each word. In the first layer both \u201cball\u201d and both full stops have the same experts; in the second, "
        "which knows more of what came before, they do not."
    )


@picture
def kinds(site):
    """The share of each kind of word that each expert of the first layer gets, on held-out stories."""
    report = numbers_called(site, "mixture")
    drawn, axes = figure(7, 3.8, columns=2)
    for ax, (name, title, colour) in zip(axes, (("balanced", "with the balancing term", BLUE), ("unbalanced", "without it", ORANGE))):
        found = report[name]["kinds"]
        shares = np.array(list(found.values()))
        heatmap(ax, shares, list(found) if name == "balanced" else (), list(map(str, range(shares.shape[1]))), colour=colour, title=title, largest=1, numbers=False)
        ax.set(xlabel="expert of layer 0")
    return drawn, (
        "How many of the words of each kind an expert of the first layer gets, of 1,000 held-out stories. Nobody told the router what a name or a colour is."
    )


@picture
def stored(site):
    """Loss against the numbers of its networks that a token uses, of mixtures and dense networks."""
    report = numbers_called(site, "mixture")
    drawn, axes = figure(5.2, 2.8)
    for name, label, colour in (
        ("dense_used", "dense, as many as are used", GREEN), ("balanced", "mixture, balanced", BLUE), ("unbalanced", "mixture, not balanced", ORANGE),
        ("dense_stored", "dense, as many as are stored", GREEN),
    ):  # fmt: skip
        losses = [seed["loss"] for seed in report[name]["seeds"]]
        offset = {"balanced": -150, "unbalanced": 150}.get(name, 0)
        axes.plot([report[name]["used"] + offset] * len(losses), losses, "o", color=colour, label=label, markersize=5, alpha=0.8)
    axes.set(xlabel="numbers of a layer’s network that a token uses", ylabel="expected loss")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return drawn, (
        "Three seeds of each. The mixture uses as many numbers for a token as the small dense network, and stores as many as the large one."
    )
