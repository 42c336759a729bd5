"""Pictures of lesson 8."""

import numpy as np
from generator.picture import BLUE, FAINT, ORANGE, QUIET, figure, image, picture


@picture
def sinusoids(site):
    """The sinusoidal rows of 100 positions and 64 features."""
    trace = site.trace_called("08_positions")
    positions, frequencies = trace["map.positions"], trace["map.frequencies"]
    n, d = positions.shape
    drawn, axes = figure(6.1, 4.2)
    image(axes, positions)
    axes.set(xlabel="feature (even: sine, odd: cosine)", ylabel="position")
    return drawn, (
        f"The sinusoidal embeddings of {n} positions with {d} features each: blue is positive, orange negative, clear is 0. Features 0 "
        f"and 1 go round once in {2 * np.pi / frequencies[0]:.1f} positions. The last pair hardly moves: its sine grows from {positions[0, -2]:.3f} to "
        f"{positions[-1, -2]:.3f} in {n - 1} positions."
    )


@picture
def clocks(site):
    """Each pair of features as the hand of a clock, at the first positions."""
    trace = site.trace_called("08_positions")
    positions, frequencies = trace["map.positions"], trace["map.frequencies"]
    pairs, places = (0, 4, 8, 16), range(6)
    drawn, axes = figure(5.6, 4.2, rows=len(pairs), columns=len(places))
    for line, pair in zip(axes, pairs):
        for place, p in zip(line, places):
            _clock(place, sine=positions[p, 2 * pair], cosine=positions[p, 2 * pair + 1])
        line[0].text(-1.5, 0, f"pair {pair}\n{frequencies[pair]:.3f}", ha="right", va="center", fontsize=9)
    for place, p in zip(axes[0], places):
        place.set_title(f"p = {p}")
    turned = ", ".join(f"pair {pair} by {frequencies[pair]:.3f}" for pair in pairs)
    return drawn, (
        "Features 2i and 2i + 1 of position p are the sine and the cosine of one angle, drawn here as the hand of a clock. From one position to "
        f"the next, the hands turn by a fixed angle in radians: {turned}."
    )


def _clock(axes, sine, cosine):
    """A hand that stands upright at the angle 0 and turns clockwise."""
    round_ = np.linspace(0, 2 * np.pi, 60)
    axes.plot(np.sin(round_), np.cos(round_), color=FAINT, linewidth=1)
    axes.plot([0, sine], [0, cosine], color=BLUE, linewidth=2, solid_capstyle="round")
    axes.plot([0], [0], "o", color=QUIET, markersize=2.5)
    axes.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal")
    axes.set_axis_off()


@picture
def shuffled_words(site):
    """The weights of one word before and after two words are exchanged, without and with positions."""
    trace, words = site.trace_called("08_positions"), site.words("sentence")
    order = trace["sentence.order"].tolist()
    word = words.index("Lily")
    drawn, axes = figure(7.0, 3.0, columns=2, sharey=True)
    for place, (scope, title) in zip(axes, (("without", "without positions"), ("with", "with positions"))):
        before = trace[f"sentence.{scope}.straight.weights"][word]
        row = trace[f"sentence.{scope}.turned.weights"][order.index(word)]
        after = np.array([row[order.index(m)] for m in range(len(words))])
        at = np.arange(len(words))
        place.bar(at - 0.2, before, 0.38, color=BLUE, label=" ".join(words))
        place.bar(at + 0.2, after, 0.38, color=ORANGE, label=" ".join(words[i] for i in order))
        place.set_xticks(at, words)
        place.set_title(title)
    axes[0].set_ylabel(f"weight of {words[word]}'s row")
    axes[0].legend(loc="upper right", fontsize=8)
    axes[0].set_ylim(0, 0.42)
    return drawn, (
        f"The weights of the query {words[word]} for each word, before and after two words are exchanged. Without positions both orders "
        f"give the same weights. With the small model's positions they differ: {words[word]} gives itself {before[word]:.4f} in the first "
        f"order and {after[word]:.4f} in the second."
    )
