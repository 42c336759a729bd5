"""Pictures of lesson 6."""

from generator.picture import figure, heatmap, picture


@picture
def two_heads(site):
    """The weights of both heads, side by side."""
    trace = site.trace_called("06_multi_head")
    first, second = trace["head.0.weights"], trace["head.1.weights"]
    drawn, axes = figure(6, 2.6, columns=2)
    for head, (place, weights) in enumerate(zip(axes, (first, second))):
        heatmap(place, weights, [f"n = {i}" for i in range(len(weights))], [f"m = {i}" for i in range(len(weights))], title=f"head {head}")
    return drawn, (
        f"The weights of two heads on the same three tokens. Head 0 gives token 1 of token 0's weight {first[0, 1]:.4f}, "
        f"head 1 gives it {second[0, 1]:.4f}."
    )
