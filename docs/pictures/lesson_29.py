"""Pictures of lesson 29."""

import numpy as np

from generator.picture import BLUE, ORANGE, figure, image, picture


@picture
def ways(site):
    """The masks of the first request, padded on either side, and that of all requests in one row."""
    trace = site.trace_called("29_many_sequences")
    drawn, axes = figure(7, 2.9, columns=3)
    masks = (trace["right.mask"][0], "padded on the right"), (trace["left.mask"][0], "padded on the left"), (trace["packed.mask"], "packed into one row")
    for ax, (mask, title) in zip(axes, masks):
        image(ax, mask, title=title)
        ticks = range(0, len(mask), 4 * (1 + len(mask) // 20))
        ax.set(xticks=ticks, yticks=ticks)
    return drawn, (
        f"Rows are queries, columns keys; coloured where a word can attend to another. Panels 1 and 2: the row of the first request, {trace['lengths'][0]} words of {trace['right.real'].shape[1]} places; "
        "what rows of padding attend to is never read. "
        "Panel 3: all three requests, each a triangle of its own."
    )


@picture
def memory(site):
    """Room for the keys and values of eight requests, and how much of it they use."""
    trace = site.trace_called("29_many_sequences")
    ways_of_room = (("reserved", "2,048 for each"), ("padded", "as long as the longest"), ("paged", "pages of 16"), ("packed", "packed"))
    drawn, axes = figure(6, 2.2)
    places = np.arange(len(ways_of_room))[::-1]
    used = trace["published.if_packed.gib"][0]
    taken = [trace[f"published.if_{way}.gib"][0] for way, _ in ways_of_room]
    axes.barh(places, taken, color=ORANGE, label="room that nothing is in")
    axes.barh(places, [used] * len(taken), color=BLUE, label="keys and values")
    axes.set_yticks(places, [name for _, name in ways_of_room])
    axes.set(xlabel="GiB, OPT-13B, eight requests")
    axes.legend(loc="lower right", frameon=False)
    return drawn, f"Eight requests of {trace['published.held'].min()} to {trace['published.held'].max()} tokens: of what is reserved they use {trace['published.if_reserved.share']:.2f}, of their pages {trace['published.if_paged.share']:.2f}."
