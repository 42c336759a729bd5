"""Pictures of lesson 11."""

from generator.picture import BLUE, GREEN, ORANGE, PURPLE, QUIET, RED, figure, ink_on, picture

COLOURS = {"attention": BLUE, "feed-forward": ORANGE, "norms": RED, "words": GREEN, "positions": PURPLE}


def parts_of(trace):
    """How many parameters each kind of part has, in millions, by model."""
    base, gpt2 = (lambda part, model=model: trace[f"parameters.{model}.{part}"].item() / 1e6 for model in ("base", "gpt2"))
    layers, many = trace["parameters.base.layers"].item(), trace["parameters.gpt2.layers"].item()
    return {
        "encoder": {"attention": layers * base("attention"), "feed-forward": layers * base("feed_forward"), "norms": layers * 2 * base("norm")},
        "base Transformer": {"attention": layers * 3 * base("attention"), "feed-forward": layers * 2 * base("feed_forward"),
                             "norms": layers * 5 * base("norm"), "words": base("table")},
        "GPT-2 small": {"attention": many * gpt2("attention"), "feed-forward": many * gpt2("feed_forward"),
                        "norms": (2 * many + 1) * gpt2("norm"), "words": gpt2("table"), "positions": gpt2("positions")},
    }  # fmt: skip


@picture
def parameters(site):
    """A bar per model, cut into its parts."""
    trace = site.trace_called("11_encoder_stack")
    drawn, axes = figure(4.9, 3)
    models = parts_of(trace)
    for row, parts in enumerate(models.values()):
        left = 0
        for name, size in parts.items():
            axes.barh(row, size, left=left, height=0.6, color=COLOURS[name], alpha=0.75)
            if size > 5:
                axes.text(left + size / 2, row, f"{size:.1f}", ha="center", va="center", color=ink_on(COLOURS[name], 0.75), fontsize=9)
            left += size
        axes.text(left + 1, row, f"{left:.1f} M", va="center", color=QUIET)
    for name, colour in COLOURS.items():
        axes.barh(0, 0, color=colour, alpha=0.75, label=name)
    axes.set_yticks(range(len(models)), models)
    axes.set(xlabel="million parameters", xlim=(0, 165))
    axes.invert_yaxis()
    axes.legend(ncols=3, fontsize=9, loc="upper center", bbox_to_anchor=(0.35, 1.3), handlelength=1, columnspacing=1)
    whole = {name: sum(parts.values()) for name, parts in models.items()}
    return drawn, (
        f"Where the parameters are, in millions: {whole['encoder']:.1f} in the six encoder layers, "
        f"{whole['base Transformer']:.1f} in the base Transformer, {whole['GPT-2 small']:.1f} in GPT-2 small. Norms and positions "
        f"are too few to be labelled."
    )
