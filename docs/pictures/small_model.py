"""Pictures of the small model: what it expects next, and what its heads put their weight on."""

import json
import textwrap

import numpy as np

from generator.measurements import numbers_called
from generator.picture import BLUE, figure, heatmap, picture

NAMED = ("colour_before_thing", "name_for_pronoun", "colour_of_thing")


def probabilities(logits):
    shifted = np.exp(logits - logits.max())
    return shifted / shifted.sum()


@picture
def next_words(site):
    """The most probable next words after the story so far, before and after training."""
    vocabulary = json.loads((site.root / "lessons" / "small_model" / "config.json").read_text())["vocabulary"]
    after = probabilities(site.trace_called("story")["logits"][-1])
    best = np.argsort(after)[::-1][:6]
    drawn, axes = figure(6, 2.2)
    axes.barh(range(len(best)), after[best], color=BLUE)
    axes.set_yticks(range(len(best)), [vocabulary[word] for word in best])
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="probability")
    for place, word in enumerate(best):
        axes.text(after[word] + 0.01, place, f"{after[word]:.4f}", va="center")
    return drawn, (
        f"The six most probable words after \u201c{' '.join(site.words('story'))}\u201d: "
        f"{vocabulary[best[0]]} has a probability of {after[best[0]]:.4f}."
    )


@picture
def heads_measured(site):
    """The average weights that name a head, for all eight heads."""
    heads = numbers_called(site, "report")["heads"]
    drawn, axes = figure(4.9, 0.66 * len(heads) + 0.9)
    table = np.array([np.ravel(head["average_weight_by_layer_and_head"]) for head in heads.values()])
    columns = [f"{layer}.{head}" for layer in range(2) for head in range(4)]
    rows = [textwrap.fill(head["connects"].replace("`", ""), 19) for head in heads.values()]
    heatmap(axes, table, rows, columns, largest=1)
    axes.set_aspect("auto")
    axes.tick_params(axis="y", labelsize=9)
    best = heads["colour_of_thing"]
    return drawn, (
        f"Average weight, for each head (layer.head, columns), that goes from one kind of word to another (rows). Head {best['layer']}.{best['head']} puts "
        f"{best['average_weight']:.2f} of the weight of the last \u201cwas\u201d on the colour."
    )


@picture
def named_heads(site):
    """The maps of three heads on the story, before training and after."""
    words, run = site.words("story"), site.trace_called("story")
    drawn, axes = figure(7, 3.2, columns=len(NAMED))
    for place, name in zip(axes, NAMED):
        layer, number, path = site.head(name)
        heatmap(place, run[f"{path}.weights"], words, words, numbers=False, title=f"head {layer}.{number}")
        place.tick_params(labelsize=6)
    layer, number, path = site.head("colour_of_thing")
    at = run[f"{path}.weights"][-1]
    return drawn, (
        f"Three heads on the same story. In head {layer}.{number}, \u201c{words[-1]}\u201d puts {at[words.index('red')]:.2f} of its weight on \u201cred\u201d."
    )
