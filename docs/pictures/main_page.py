"""Pictures of the landing page."""

import numpy as np

from generator.picture import BLUE, ORANGE, figure, heatmap, picture


@picture
def attention_map(site):
    """The weights of one head over a sentence, before training and after it."""
    words = site.words()
    *_, head = site.head("name_for_pronoun")
    before, after = (site.trace_called(run)[f"{head}.weights"] for run in ("untrained", "sentence"))
    drawn, axes = figure(7, 3.7, columns=2)
    for place, weights, when in zip(axes, (before, after), ("before training", "after training")):
        shown = np.where(np.tril(np.ones_like(weights)) > 0, weights, np.nan)  # later words are masked: blank
        heatmap(place, shown, words, words, largest=1)
        place.set(title=when, xlabel="word that is attended to")
    axes[0].set_ylabel("word that attends")
    row = words.index(".")
    return drawn, (
        f"The weights of one head of the small model: each row is a word that attends, each column a word that it attends to. "
        f"Before training the full stop gives {words[0]} {before[row, 0]:.2f} of its weight, after training {after[row, 0]:.2f}: the next word is "
        f"{words[row + 1]}, and the model found that the name decides it. Blank: later words, which are masked."
    )


@picture
def one_head(site):
    """A head's map, and the next word with it and without it."""
    words, vocabulary = site.words("things"), site.vocabulary("small_model")
    weights = site.trace_called("things")["layers.0.self_attn.head.3.weights"]
    drawn, (map_of_head, bars) = figure(7, 4.2, columns=2, width_ratios=(2, 1))
    heatmap(map_of_head, np.where(np.tril(np.ones_like(weights)) > 0, weights, np.nan), words, words, largest=1, numbers=False)
    map_of_head.set_title("head 3 of layer 0")
    chances = {}
    for run in ("things", "ablated"):
        powers = np.exp(site.trace_called(run)["logits"][-1] - np.max(site.trace_called(run)["logits"][-1]))
        chances[run] = powers / powers.sum()
    first = np.argsort(-(chances["things"] + chances["ablated"]))[:3]
    for run, shift, colour, label in (("things", -0.2, BLUE, "with the head"), ("ablated", 0.2, ORANGE, "without it")):
        bars.barh(np.arange(len(first)) + shift, chances[run][first], 0.38, color=colour, label=label)
    bars.set_yticks(range(len(first)), [vocabulary[i] for i in first])
    bars.set(title="the next word", xlim=(0, 1))
    bars.invert_yaxis()
    bars.legend(loc="lower right")
    kept, lost = (vocabulary[int(np.argmax(chances[run]))] for run in ("things", "ablated"))
    thing = words.index(kept)
    return drawn, (
        f"“{' '.join(words)}”: rows are words, columns the words that they look at. {kept} puts {weights[thing, thing - 1]:.2f} of this head's weight on "
        f"{words[thing - 1]}. The model goes on with {kept}, {max(chances['things']):.3f}; with this head set to zero it says {lost}, {max(chances['ablated']):.3f}. "
        "In a browser with JavaScript this is an experiment with words of your choice."
    )
