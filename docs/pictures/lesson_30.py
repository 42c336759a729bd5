"""Pictures of lesson 30."""

import numpy as np

from generator.measurements import numbers_called
from generator.picture import BLUE, GREEN, ORANGE, QUIET, figure, picture

SHOWN = 9  # words of a picture
DRAFTS = (("word_before", "a table: the word before", GREEN), ("first_layer", "the model’s own first layer", ORANGE), ("draft", "the trained draft", BLUE))


@picture
def choices(site):
    """The next word at three temperatures, and which words each cut leaves."""
    trace, words = site.trace_called("30_choosing"), site.vocabulary("small_model")
    order = np.argsort(-trace["chances"][0], kind="stable")[:SHOWN]
    said = words.of(order)
    drawn, axes = figure(7, 2.9, columns=4)
    panels = (("chances", None, "all words"), ("by_k", "top_k", "top-k, k = {:.0f}"), ("by_p", "top_p", "top-p, p = {:g}"), ("by_min_p", "min_p", "min-p, m = {:g}"))
    for ax, (step, option, title) in zip(axes, panels):
        shares = trace[step][0][order]
        ax.barh(range(SHOWN), trace["chances"][0][order], height=0.7, color=QUIET, alpha=0.45)
        ax.barh(range(SHOWN), shares, height=0.7, color=BLUE)
        ax.set_yticks(range(SHOWN), said)
        ax.tick_params(labelsize=7)
        ax.invert_yaxis()
        ax.set(xlim=(0, 0.34), title=title.format(trace[option][0]) if option else title)
    return drawn, (
        f"The likeliest words after \u201cShe\u201d at temperature {trace['temperature'][0]:g}: 1. with all words, 2. with top-k, 3. with top-p, 4. with min-p. Grey is what was there before the cut; "
        f"left are {trace['kept_by_k']:.0f}, {trace['kept_by_p']:.0f} and {trace['kept_by_min_p']:.0f} words."
    )


@picture
def guesses(site):
    """For each guess, what the draft and the model give the likeliest words."""
    trace, words = site.trace_called("30_choosing"), site.vocabulary("small_model")
    draft, target = trace["guess.draft"], trace["guess.target"]
    said = words.of(trace["drafted"])
    accepted = int(trace["guess.accepted"])
    drawn, axes = figure(7, 2.6, columns=len(said))
    for i, ax in enumerate(axes):
        order = np.argsort(-np.maximum(draft[i], target[i]), kind="stable")[:5]
        if trace["drafted"][i] not in order:
            order[-1] = trace["drafted"][i]
        rows = np.arange(len(order))
        ax.barh(rows - 0.2, draft[i][order], height=0.38, color=ORANGE, label="draft")
        ax.barh(rows + 0.2, target[i][order], height=0.38, color=BLUE, label="model")
        ax.set_yticks(rows, words.of(order))
        ax.tick_params(labelsize=7)
        ax.invert_yaxis()
        verdict = "accepted" if i < accepted else "rejected" if i == accepted else "taken back"
        ax.set(xlim=(0, 1.05), title=f"{said[i]}: {verdict}")
    axes[0].legend(fontsize=7, frameon=False)
    return drawn, (
        f"The four guesses \u201c{' '.join(said)}\u201d, from left to right, and what draft (orange) and model (blue) give the likeliest words there. The third guess is rejected: the model knows which thing "
        "it was."
    )


@picture
def saved(site):
    """Words for each call of the model by the number of guesses, measured and by the formula."""
    found = numbers_called(site, "choosing")["drafts"]
    drawn, axes = figure(6, 2.9)
    ends = []
    for name, label, colour in DRAFTS:
        counts = [int(count) for count in found[name]["guesses"]]
        measured = [run["words_each_call"] for run in found[name]["guesses"].values()]
        overlap = found[name]["overlap"]
        axes.plot(counts, measured, "o", color=colour, label=label)
        many = np.arange(1, max(counts) + 1)
        axes.plot(many, (1 - overlap ** (many + 1)) / (1 - overlap), color=colour, linewidth=1)
        ends.append(f"{label} {measured[-1]:.2f}")
    axes.set(xlabel="guesses for each call", ylabel="words for each call")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return drawn, (
        f"Words for each call of the model, measured (points) and by the formula with the overlap as acceptance (lines). With eight guesses: {'; '.join(ends)}."
    )
