"""Pictures of lesson 1."""

import numpy as np
from generator.picture import BLUE, INK, ORANGE, figure, grids, heatmap, picture


@picture
def attention_map(site):
    """The weights of one head of the small model on the sentence of the course."""
    layer, number, head = site.head("name_for_pronoun")
    weights = site.trace_called("sentence")[f"{head}.weights"]
    words = site.words("sentence")
    drawn, axes = figure(5, 4.2)
    heatmap(axes, weights, words, words, largest=1)
    axes.set_ylabel("query: the token that is updated")
    axes.set_xlabel("key: the token that is averaged over")
    axes.xaxis.set_label_position("top")
    stop, name = words.index("."), words.index("Lily")
    return drawn, (
        f"The weights of head {number} in layer {layer} of the small model. Each row is one query, and its weights sum to 1. "
        f"The full stop puts {weights[stop, name]:.3f} of its weight on Lily. "
        f"Above the diagonal all weights are {weights[0, 1]:.0f}: in this model a query can attend only to itself and earlier tokens."
    )


@picture
def mechanism(site):
    """Each step of the lesson as a grid of its numbers."""
    trace = site.trace_called("01_single_query")
    return grids(
        6.1,
        (("token 0", trace["first_input"]), "times", ("query weights", trace["query_weights"]), "=", ("query", trace["query"])),
        (("keys", trace["keys"]), "times", ("query", trace["query"], "turned"), "=", ("scores", trace["scores"], "turned"), "softmax",
         ("weights", trace["weights"], "turned")),
        (("weights", trace["weights"]), "times", ("values", trace["values"]), "=", ("output", trace["output"])),
    ), "Row times matrix, three times. Above: the query of token 0. Middle: each row of the keys times the query is a score, and softmax makes weights of the scores. Below: the weights times the values, the average of the rows of the values, is the output."  # fmt: skip


@picture
def divided_words(site):
    """The scores of the sentence's full stop as weights: by softmax, and divided by their sum."""
    words = site.words("sentence")
    stop = words.index(".")
    run, head = site.trace_called("sentence"), site.head("name_for_pronoun")[2]
    scores, weights = run[f"{head}.scaled"][stop, : stop + 1], run[f"{head}.weights"][stop, : stop + 1]
    divided = scores / scores.sum()
    drawn, axes = figure(4.4, 2.6)
    places = np.arange(stop + 1)
    axes.bar(places - 0.2, weights, width=0.38, color=BLUE, label="softmax")
    axes.bar(places + 0.2, divided, width=0.38, color=ORANGE, label="divided by the sum")
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xticks(places, words[: stop + 1])
    axes.set_ylabel("weight")
    axes.legend()
    name, worst = words.index("Lily"), int(scores.argmin())
    return drawn, (
        f"The full stop's weights by softmax, and its scores divided by their sum, {scores.sum():.2f}: Lily gets {weights[name]:.2f} by softmax and "
        f"{divided[name]:.2f} by division, {words[worst]} {weights[worst]:.2f} and {divided[worst]:.2f}."
    )
