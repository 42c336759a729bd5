"""Pictures of lesson 1."""

from generator.picture import figure, heatmap, picture


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
