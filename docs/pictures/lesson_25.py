"""Pictures of lesson 25."""

from generator.measurements import numbers_called
from generator.picture import BLUE, GREEN, ORANGE, QUIET, figure, heatmap, picture

MODELS = ("Mistral 7B", "Gemma 2 9B", "Gemma 3 27B", "gpt-oss-20b")


@picture
def masks(site):
    """A window, the same with the first word kept, and what two layers of windows reach."""
    trace, words = site.trace_called("25_windows_and_sinks"), site.vocabulary("small_model")
    said = words.of(trace["ids"])
    drawn, axes = figure(7, 3.0, columns=3)
    for ax, (step, title, colour) in zip(axes, (
        ("window_mask", "a window of 6", BLUE), ("first_mask", "and the first word kept", BLUE), ("reach.two", "reached by two layers", GREEN),
    )):  # fmt: skip
        heatmap(ax, trace[step], said if ax is axes[0] else (), said, colour=colour, numbers=False, title=title, largest=1)
        ax.tick_params(labelsize=6)
    return drawn, (
        "Rows are queries, columns keys: the words of the story. In a window of 6 the last word sees itself and five before it; through two layers it depends on "
        f"{trace['reach.by_two']:.0f} words."
    )


@picture
def forgotten(site):
    """The probability of the right word in each of six roles, for windows of several widths."""
    windows = numbers_called(site, "windows")["small_model"]
    drawn, axes = figure(4.6, 3.6)
    widths = list(windows["window"])
    for (name, role), colour in zip(windows["roles"].items(), (ORANGE, BLUE, GREEN, QUIET, ORANGE, BLUE)):
        chances = [role[width] for width in widths] + [role["all"]]
        style = "-" if list(windows["roles"]).index(name) < 4 else "--"
        axes.plot(range(len(chances)), chances, style, marker="o", markersize=3.5, color=colour, label=f"{name.replace('_', ' ')}, {role['distance']:.0f} back")
    axes.set(ylim=(-0.03, 1.05), xlabel="window", ylabel="probability of the right word")
    axes.set_xticks(range(len(widths) + 1), [*widths, "all"])
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2, frameon=False)
    return drawn, (
        "The small model on held-out stories, in windows of several widths. Each role needs a word so far back, on average; the name, which is said first, is lost first of all."
    )


@picture
def sinks(site):
    """The one head of the echo model: all words, and with a learned sink."""
    trace, letters = site.trace_called("25_windows_and_sinks"), site.vocabulary("echo")
    said = letters.of(trace["echo_ids"])
    drawn, axes = figure(7, 3.6, columns=2)
    for ax, (scope, title) in zip(axes, (("all", "trained without a sink"), ("sink", "trained with one, last column"))):
        head = f"echo.{scope}.layers.0.self_attn.head.0."
        weights = trace[head + ("all_weights" if scope == "sink" else "weights")]
        heatmap(ax, weights, said, [*said, "sink"] if scope == "sink" else said, numbers=False, title=title, largest=1)
        ax.tick_params(labelsize=7)
    return drawn, (
        "The weights of the echo model\u2019s head. After a sign it looks at the letter before the sign; after a letter it has nothing to look for, and puts its weight on the first "
        "word. With a learned sink (last) much of that goes to the sink."
    )
