"""Pictures of lesson 2."""

from generator.picture import figure, grids, heatmap, picture


@picture
def softmax_axes(site):
    """The same scores after softmax along the keys, and along the queries by mistake."""
    trace = site.trace_called("02_all_queries")
    drawn, axes = figure(5.6, 2.5, columns=3)
    places = ("0", "1", "2"), ("0", "1", "2")
    shown = ("other.scores", "scores", 0), ("other.weights", "right: along keys", 2), ("wrong.weights", "wrong: along queries", 2)
    for place, (name, title, decimals) in zip(axes, shown):
        heatmap(place, trace[name], *places, title=title, decimals=decimals)
        place.set_xlabel("key m")
    axes[0].set_ylabel("query n")
    sums = trace["wrong.sums"]
    return drawn, (
        "The first panel: scores of three queries and three keys. The second: softmax along the keys makes each row sum to 1. "
        f"The third: softmax along the queries makes each column sum to 1; the rows sum to {sums[0]:.2f}, {sums[1]:.2f} and {sums[2]:.2f}."
    )


@picture
def mechanism(site):
    """The whole lesson as grids of numbers."""
    trace = site.trace_called("02_all_queries")
    return grids(
        6.6,
        (("queries", trace["queries"]), "times", ("keys, transposed", trace["keys"], "turned"), "=", ("scores", trace["scores"])),
        (("weights", trace["weights"]), "times", ("values", trace["values"]), "=", ("output", trace["output"])),
    ), "Above: row n of the queries times column m of the transposed keys is the score of query n and key m. Softmax makes each row of the scores a row of weights. Below: row n of the weights times the values is row n of the output, the average of all values for query n."  # fmt: skip
