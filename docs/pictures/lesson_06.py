"""Pictures of lesson 6."""

import numpy as np
from generator.picture import BLUE, GREEN, INK, QUIET, figure, heatmap, ink_on, picture
from matplotlib.patches import ConnectionPatch, Rectangle

HEAD_COLOURS = (BLUE, GREEN)


@picture
def four_heads(site):
    """The weights of the four heads of the small model's second layer on the sentence."""
    words, run = site.words("sentence"), site.trace_called("sentence")
    heads = [run[f"layers.1.self_attn.head.{head}.weights"] for head in range(4)]
    drawn, axes = figure(7.0, 7.2, rows=2, columns=2)
    for head, (place, weights) in enumerate(zip(axes.flat, heads)):
        heatmap(place, weights, words, words, title=f"head {head}", largest=1)
        place.add_patch(_frame(words.index("."), len(words)))
    stop = words.index(".")
    strongest = [int(np.argmax(weights[stop])) for weights in heads]
    found = "; ".join(f"head {head}: {words[m]} {weights[stop, m]:.2f}" for head, (m, weights) in enumerate(zip(strongest, heads)))
    return drawn, (
        "The weights of the four heads of the second layer on the sentence; each row is a query and sums to 1. The framed row is "
        f"the full stop. Its largest weight in {found}."
    )


@picture
def two_steps(site):
    """A previous-word head of the first layer, and the induction head of the second that uses it."""
    words, run = site.words("things"), site.trace_called("things")
    heads = [site.head(role) for role in ("colour_before_thing", "thing_after_colour")]
    maps = [run[f"{path}.weights"] for _, _, path in heads]
    kite, blue, last = words.index("kite"), words.index("blue"), len(words) - 1
    drawn, axes = figure(7.0, 3.9, columns=2)
    framed, names = ((kite, blue), (last, kite)), ("previous word", "look-up")
    for place, weights, (layer, number, _), (row, column), name in zip(axes, maps, heads, framed, names):
        heatmap(place, weights, words, words, numbers=False, title=f"layer {layer}, head {number}: {name}", largest=1)
        place.add_patch(_frame(row, 1, column))
        place.tick_params(labelsize=8)
    return drawn, (
        f"Two heads on a story with two things; rows are queries, columns are keys. The framed cell of head {heads[0][1]} of layer {heads[0][0]}: \u201ckite\u201d puts "
        f"{maps[0][kite, blue]:.2f} of its weight on \u201cblue\u201d, the word before it. Of head {heads[1][1]} of layer {heads[1][0]}: the second \u201cblue\u201d puts "
        f"{maps[1][last, kite]:.2f} of its weight on \u201ckite\u201d, the word that followed the first."
    )


def _frame(row, width, column=0):
    return Rectangle((column - 0.5, row - 0.5), width, 1, fill=False, edgecolor=INK, linewidth=1.4)


@picture
def split_and_merge(site):
    """From the packed queries to the merged contexts, with each head's map of weights between."""
    trace = site.trace_called("06_multi_head")
    drawn, axes = figure(4.4, 8.4, rows=5, columns=2)
    drawn.get_layout_engine().set(hspace=0.2)
    for place in axes.flat:
        place.set_axis_off()
    whole = axes[0, 0].get_gridspec()
    packed, merged = drawn.add_subplot(whole[0, :]), drawn.add_subplot(whole[4, :])
    _by_head(packed, trace["packed.query"], "$X W^Q$ (3, 4)")
    _by_head(merged, trace["merged"], "merged (3, 4)")
    for head, colour in enumerate(HEAD_COLOURS):
        stages = [_of_head(axes[1 + i, head], trace[f"head.{head}.{step}"], f"{name}", colour)
                  for i, (step, name) in enumerate((("queries", f"head {head}: Q"), ("weights", "weights"), ("context", "context")))]  # fmt: skip
        half = 0.25 + 0.5 * head  # of what both heads share
        for before, after in zip([packed, *stages], [*stages, merged]):
            _arrow(drawn, before, after, half if before is packed else 0.5, half if after is merged else 0.5)
    return drawn, (
        "Split and merge, with the numbers of this lesson's run. X W^Q is cut by columns: the left half belongs to head 0, the right "
        "half to head 1. Each head has its own map of weights "
        f"(row 1: {_row(trace['head.0.weights'][1])} and {_row(trace['head.1.weights'][1])}). "
        "The two contexts are concatenated again by columns."
    )


def _row(numbers):
    return ", ".join(f"{number:.2f}" for number in numbers)


def _by_head(axes, values, title):
    """A matrix whose left half belongs to head 0, and whose right half to head 1."""
    _cells(axes, values, [HEAD_COLOURS[column * 2 // values.shape[1]] for column in range(values.shape[1])], title)


def _of_head(axes, values, title, colour):
    return _cells(axes, values, [colour] * values.shape[1], f"{title} ({values.shape[0]}, {values.shape[1]})")


def _cells(axes, values, colours, title):
    """Every column in its colour, every number in its cell."""
    axes.set_axis_on()
    largest = np.max(np.abs(values)) or 1
    heatmap(axes, np.zeros_like(values), numbers=False)
    for (i, j), value in np.ndenumerate(values):
        alpha = 0.12 + 0.6 * abs(value) / largest
        axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=colours[j], alpha=alpha, linewidth=0))
        axes.text(j, i, f"{value:.0f}" if value == round(value) else f"{value:.2f}", ha="center", va="center", fontsize=7, color=ink_on(colours[j], alpha))
    axes.set_title(title)
    return axes


def _arrow(drawn, before, after, start, end):
    """From below a matrix to above the title of another."""
    drawn.add_artist(ConnectionPatch((start, 0), (end, 1.24), "axes fraction", "axes fraction", axesA=before, axesB=after,
                                     arrowstyle="-|>", color=QUIET, shrinkA=3, shrinkB=0, linewidth=1.2))  # fmt: skip
