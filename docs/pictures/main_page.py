"""Pictures of the landing page."""

import subprocess
import textwrap

import numpy as np
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.path import Path as Curve

from generator.picture import BLUE, GREEN, INK, ORANGE, PAPER, PURPLE, QUIET, RED, figure, heatmap, picture

PARTS = {"attention": BLUE, "transformer": GREEN, "learning": RED, "today": ORANGE, "beside": PURPLE, "served": INK}


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
def what_builds_on_what(site):
    """The lessons as a graph, placed by Graphviz."""
    lessons = {number: (lesson.title, lesson.part, lesson.needs) for number, lesson in site.curriculum.items()}
    boxes, arrows, width, height = placed(lessons)
    drawn, axes = figure(width, height)
    axes.set_axis_off()
    for curve in arrows:
        steps = [Curve.MOVETO] + [Curve.CURVE4] * (len(curve) - 1)
        axes.add_patch(FancyArrowPatch(path=Curve(curve, steps), arrowstyle="-|>", mutation_scale=8, color=QUIET, linewidth=0.8))
    for number, (x, y, wide, high) in boxes.items():
        title, part, _ = lessons[number]
        axes.add_patch(Rectangle((x - wide / 2, y - high / 2), wide, high, facecolor=PAPER, edgecolor=PARTS[part], linewidth=1.4))
        axes.text(x, y, wrapped(number, title), ha="center", va="center", fontsize=8, color=INK)
    axes.set(xlim=(-0.05, width + 0.05), ylim=(-0.05, height + 0.05), aspect="equal")
    alone = [number for number, (_, _, needs) in lessons.items() if not needs]
    return drawn, (
        f"What builds on what: an arrow leads from a lesson to one that builds on it, unless a path of other arrows does. Everything starts from lesson "
        f"{alone[0]}. Colours are the parts: I blue, II green, III red, IV orange, V purple, VI the colour of the text."
    )


def wrapped(number, title):
    return "\n".join(textwrap.wrap(f"{number}. {title}", 15))


def box(number, title):
    """A node of the size of its text, in inches."""
    lines = wrapped(number, title).split("\n")
    return f"{number} [width={0.14 + 0.07 * max(map(len, lines))}, height={0.12 + 0.145 * len(lines)}]"


def placed(lessons):
    """Boxes (x, y, width, height) and arrows (points of curves), as dot lays them out, in inches."""
    nodes = [box(number, title) for number, (title, _, _) in lessons.items()]
    edges = [f"{needed} -> {number}" for number, (_, _, needs) in lessons.items() for needed in needs]
    text = "digraph { node [shape=box, fixedsize=true, label=\"\"]; edge [dir=none]; nodesep=0.08; ranksep=0.24; " + "; ".join(nodes + edges) + " }"
    for command in (["tred"], ["dot", "-Tplain"]):  # without the arrows that follow from others; then the layout
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    boxes, arrows = {}, []
    for line in text.splitlines():
        kind, *rest = line.split()
        if kind == "graph":
            width, height = float(rest[1]), float(rest[2])
        elif kind == "node":
            boxes[int(rest[0])] = tuple(map(float, rest[1:5]))
        elif kind == "edge":
            numbers = list(map(float, rest[3 : 3 + 2 * int(rest[2])]))
            arrows.append(list(zip(numbers[::2], numbers[1::2])))
    return boxes, arrows, width, height
