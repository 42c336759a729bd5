"""Pictures of lesson 13."""

from generator.picture import BLUE, FAINT, GREEN, ORANGE, figure, heatmap, picture


@picture
def cache(site):
    """What is computed and what is kept while tokens are written, and how many multiplications that takes."""
    trace = site.trace_called("13_transformer")
    said, everything, newest = trace["said"], trace["cost.all"] / 1e6, trace["cost.one"] / 1e6
    drawn, (grid, cost) = figure(7, 3.4, columns=2, width_ratios=(1, 1.15))
    squares(grid, site.vocabulary("translator").of(trace["target_ids"]))

    tokens = range(1, len(said) + 1)
    cost.plot(tokens, everything, marker="o", markersize=4, color=ORANGE)
    cost.plot(tokens, newest, marker="o", markersize=4, color=BLUE)
    cost.annotate("without a cache", (tokens[4], everything[4]), xytext=(-8, 4), textcoords="offset points", ha="right", color=ORANGE)
    cost.annotate("with a cache", (tokens[6], newest[6]), xytext=(0, 6), textcoords="offset points", ha="center", color=BLUE)
    cost.set(xlabel="token written", title="million multiplications of the decoder", ylim=(0, None), xticks=tokens)
    return drawn, (
        f"First: at each step only the newest token's keys and values are computed (blue); those of earlier tokens are kept (green). "
        f"Second: at the size of the paper, token {len(said)} takes {everything[-1]:.0f} million multiplications without a cache and {newest[-1]:.1f} million with one."
    )


def squares(axes, inputs):
    """A row per step, a column per input token: kept, computed, or not there yet."""
    many = len(inputs)
    for step in range(many):
        for place in range(step + 1):
            colour = BLUE if place == step else GREEN
            axes.barh(step, 0.9, left=place - 0.45, height=0.9, color=colour, alpha=0.75 if place == step else 0.4)
    axes.set(xlim=(-0.6, many - 0.4), ylim=(many - 0.4, -0.6), aspect="equal", ylabel="step")
    axes.set_xticks(range(many), inputs)
    axes.set_yticks(range(many), range(1, many + 1))
    axes.xaxis.tick_top()
    axes.tick_params(axis="x", rotation=60)
    axes.tick_params(length=0)
    axes.spines[:].set_color(FAINT)
    axes.text(many - 1, 1, "computed", color=BLUE, ha="right")
    axes.text(many - 1, 2, "kept", color=GREEN, ha="right")


@picture
def alignment(site):
    """Where the last decoder layer's first head looks in the source while each French word is written."""
    trace, words = site.trace_called("13_transformer"), site.vocabulary("translator")
    weights = trace["decoder.layers.1.cross_attn.head.0.weights"]
    drawn, axes = figure(4.2, 3.6)
    heatmap(axes, weights, words.of(trace["said"]), words.of(trace["source_ids"]), largest=1)
    axes.set(xlabel="source (keys)", ylabel="word that is written (queries)")
    axes.xaxis.set_label_position("top")
    return drawn, (
        "Cross-attention of the last decoder layer, head 0, while each word is written. It was not told which word belongs to which: to write "
        "\u201cune\u201d it looks at \u201cball\u201d, whose French word is feminine, and to write \u201crouge\u201d, after the thing, back at \u201cred\u201d."
    )
