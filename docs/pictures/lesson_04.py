"""Pictures of lesson 4."""

from generator.picture import figure, heatmap, picture


@picture
def weights_by_score(site):
    """The weights that four scoring functions give the same queries and keys."""
    trace = site.trace_called("04_scoring")
    shown = (("dot", "dot product"), ("scaled_dot", "scaled dot product"), ("additive", "additive"), ("bilinear", "bilinear"))
    drawn, axes = figure(4.6, 4.9, rows=2, columns=2)
    for place, (scope, title) in zip(axes.flat, shown):
        heatmap(place, trace[f"{scope}.weights"], ("0", "1", "2"), ("0", "1", "2"), title=title, largest=1)
        place.set(xlabel="key m", ylabel="query n")
    return drawn, (
        "The weights by four scoring functions, for the same three keys; the queries of the bilinear score have two numbers instead of three. "
        "For query 1, the weight of key 1 is "
        + ", ".join(f"{trace[f'{scope}.weights'][1, 1]:.2f} ({title})" for scope, title in shown)
        + "."
    )
