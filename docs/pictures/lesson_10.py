"""Pictures of lesson 10."""

from generator.picture import BLUE, GREEN, RED, figure, picture


@picture
def sizes(site):
    """The size of the tokens through six layers: without norms, pre-norm and post-norm."""
    trace = site.trace_called("10_encoder_layer")
    drawn, axes = figure(6, 3)
    for name, label, colour in (("none", "no norm", RED), ("pre", "pre-norm", BLUE), ("post", "post-norm", GREEN)):
        values = trace[f"six.{name}"]
        axes.plot(range(len(values)), values, marker="o", markersize=4, color=colour)
        axes.annotate(label, (6, values[-1]), xytext=(8, -3), textcoords="offset points", color=colour)
    axes.set(yscale="log", xlabel="layers", ylabel="size of the tokens (logarithmic)", xlim=(-0.2, 7.2), xticks=range(7))
    axes.grid(axis="y")
    return drawn, (
        f"The root mean square of the tokens' features after each of six layers with the same weights: without norms "
        f"{trace['six.none'][6]:.0f} after six layers, pre-norm {trace['six.pre'][6]:.1f}, post-norm {trace['six.post'][6]:.2f}."
    )
