"""Pictures of lesson 28."""

import numpy as np

from generator.picture import BLUE, INK, ORANGE, figure, heatmap, picture

MISTAKES = (
    "mask_skipped_with_cache", "chunk_masked_top_left", "positions_restart", "positions_one_ahead",
    "positions_stand_still", "cache_overwritten", "ring_written_first", "first_tokens_overwritten",
)  # fmt: skip


@picture
def calls(site):
    """The mask of all tokens at once, cut where the calls end, without and with a window."""
    trace = site.trace_called("28_many_calls")
    words = site.vocabulary("small_model").of(trace["ids"])
    drawn, axes = figure(7, 4.1, columns=2)
    for ax, (step, title) in zip(axes, (("at_once.call.0.mask", "everything is stored"), ("ring.at_once.call.0.mask", "a ring of 6, and the first token"))):
        heatmap(ax, trace[step], words if ax is axes[0] else (), words, numbers=False, title=title, largest=1)
        for end in trace["ends"][:-1]:
            ax.axhline(end - 0.5, color=ORANGE, linewidth=1.6)
        ax.tick_params(labelsize=7)
    return drawn, (
        "Rows are queries, columns keys. Orange lines stand where a call ends: a call has the rows between two lines. Its mask is these rows of the whole mask, no others; "
        "columns without a cell in all later rows need not be stored."
    )


@picture
def corners(site):
    """The mask of the last call, from either corner."""
    trace = site.trace_called("28_many_calls")
    words = site.vocabulary("small_model").of(trace["ids"])
    drawn, axes = figure(7, 2.4, columns=2)
    for ax, (step, title, colour) in zip(axes, (("bottom_right", "from the bottom right", BLUE), ("top_left", "from the top left: a mistake", ORANGE))):
        heatmap(ax, trace[f"corners.{step}"], words[11:] if ax is axes[0] else (), words, colour=colour, numbers=False, title=title, largest=1)
        ax.tick_params(labelsize=7)
    return drawn, "The last call: six queries beside seventeen keys. Counted from the top left, the chunk reads the beginning of the story and neither itself nor what came just before it."


@picture
def patterns(site):
    """Which tokens eight mistakes change, in four divisions."""
    trace = site.trace_called("28_many_calls")
    n = len(trace["ids"])
    schedules = (("one by one", range(1, n)), ("prompt, one by one", range(6, n)), ("prompt, chunks of 4", range(6, n, 4)), ("prompt, the rest", range(6, n, n)))
    drawn, axes = figure(7, 3.0, rows=2, columns=2, sharey=True)
    for ax, (i, (title, ends)) in zip(axes.flat, enumerate(schedules)):
        differs = np.array([trace[f"mistakes.{name}.off"][i] > 1e-9 for name in MISTAKES], float)
        heatmap(ax, differs, [str(k + 1) for k in range(len(MISTAKES))], colour=ORANGE, numbers=False, title=title, largest=1)
        for end in ends:
            ax.axvline(end - 0.5, color=INK, linewidth=0.8)
        ax.tick_params(labelsize=7)
    return drawn, (
        "A row per mistake, by its number above, and a column per token; lines stand where a call ends. Filled: the token gets another result than in one call. "
        "All rows differ in some panel but 3 and 4."
    )
