"""Pictures of lesson 5."""

from generator.picture import BLUE, figure, heatmap, picture


def grid(place, mask, title):
    """A mask as a grid: filled where the query can attend to the key."""
    rows, columns = ([str(i) for i in range(size)] for size in mask.shape)
    heatmap(place, mask, rows, columns, colour=BLUE, numbers=False, title=title, largest=1)
    place.set_xlabel("key m")


@picture
def three_masks(site):
    """Padding, causal, and both, for the second sentence of the batch."""
    trace = site.trace_called("05_masking")
    shown = ((trace["mask"][1], "padding"), (trace["both.causal"], "causal"), (trace["both.mask"][1], "both"))
    drawn, axes = figure(6.5, 2.6, columns=3)
    for place, (mask, title) in zip(axes, shown):
        grid(place, mask, title)
    axes[0].set_ylabel("query n")
    counts = [int(mask.sum()) for mask, _ in shown]
    return drawn, (
        f"Three masks for a sentence of {trace['lengths'][1]} tokens and 2 tokens of padding; filled where the query can attend to the key. "
        f"Of 16 pairs, padding leaves {counts[0]}, the causal mask {counts[1]}, both together {counts[2]}."
    )


@picture
def two_corners(site):
    """The causal mask for two queries and four keys, aligned to either corner."""
    trace = site.trace_called("05_masking")
    drawn, axes = figure(5.5, 1.9, columns=2)
    shown = ((trace["bottom_right.causal"], "bottom right"), (trace["top_left.causal"], "top left"))
    for place, (mask, title) in zip(axes, shown):
        grid(place, mask, title)
    axes[0].set_ylabel("query n")
    return drawn, (
        f"Causal masks for two queries and four keys. Aligned to the bottom right, query 0 can attend to {int(shown[0][0][0].sum())} keys; "
        f"aligned to the top left, to {int(shown[1][0][0].sum())}."
    )


@picture
def causal_sentence(site):
    """The masked scores of one head of the small model."""
    trace, words = site.trace_called("sentence"), site.words("sentence")
    *_, head = site.head("name_for_pronoun")
    drawn, axes = figure(5, 4.2)
    heatmap(axes, trace[f"{head}.masked"], words, words, decimals=1)
    axes.set(xlabel="key", ylabel="query")
    axes.xaxis.set_label_position("top")
    score, weight = trace[f"{head}.scaled"][0, 5], trace[f"{head}.weights"][0, 5]
    return drawn, (
        f"The scores of one head of the small model after the causal mask. The score of Lily's query for the full stop, {score:.2f}, is replaced by "
        f"minus infinity, because the full stop comes later; its weight is {weight:.0f}. Orange scores are negative."
    )
