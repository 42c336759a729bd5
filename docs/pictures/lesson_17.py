"""Pictures of lesson 17."""

import json
import textwrap

import numpy as np
from generator.picture import BLUE, CYCLE, FAINT, GREEN, INK, ORANGE, PURPLE, QUIET, figure, ink_on, picture
from matplotlib.patches import Rectangle

LESSON = "17_story"


def vocabulary(site):
    return json.loads((site.root / "lessons" / "small_model" / "config.json").read_text(encoding="utf-8"))["vocabulary"]


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def boxes(axes, texts, x, y, colours, gap=0.35, width_of=lambda text: 0.62 * len(text) + 0.5, right=62, height=1.5):
    """Texts in boxes, one after the other, in lines that end at `right`; returns the y of the last line."""
    left = x
    for text, (colour, strength) in zip(texts, colours):
        width = width_of(text)
        if x + width > right:
            x, y = left, y - height - 0.4
        axes.add_patch(Rectangle((x - 0.15, y - 0.8), width + 0.3, 1.6, facecolor=colour, alpha=strength, linewidth=0))
        axes.text(x + width / 2, y, text, ha="center", va="center", fontsize=9, color=ink_on(colour, strength))
        x += width + gap
    return y


@picture
def stories(site):
    """The three continuations, each word as strong as it was likely."""
    trace, words = site.trace_called(LESSON), vocabulary(site)
    prompt = len(site.words("sentence"))
    drawn, axes = figure(6.1, 3.8)
    y, least = 0.0, []
    for i in range(3):
        ids, logits = trace[f"written.{i}.ids"], trace[f"written.{i}.logits"]
        chances = [softmax(logits[k - 1])[ids[k]] for k in range(prompt, len(ids))]
        least.append(min(chances))
        axes.text(0, y, f"temperature {trace[f'written.{i}.temperature'].item():g}", fontsize=9, color=QUIET, va="center")
        colours = [(FAINT, 0.6)] * prompt + [(BLUE, 0.75 * chance) for chance in chances]
        y = boxes(axes, [words[k] for k in ids], 0, y - 1.7, colours, gap=0.7, right=52) - 2.6
    axes.set(xlim=(-0.5, 53), ylim=(y + 1.6, 1))
    axes.axis("off")
    return drawn, (
        f"The small model continues \"{' '.join(site.words('sentence'))}\" (grey) at three temperatures. The stronger a word's blue, the more "
        f"probable it was before any temperature. The least probable word chosen had the probability {least[0]:.4f} at temperature 0, {least[1]:.4f} at 1 and "
        f"{least[2]:.1e} at 3."
    )


@picture
def temperature(site):
    """The next word's probabilities at three temperatures."""
    trace, words = site.trace_called(LESSON), vocabulary(site)
    probabilities, temperatures = trace["temperature.probabilities"], trace["temperature.temperatures"]
    best = np.argsort(-probabilities[2])[:8]
    drawn, axes = figure(7, 2.6, columns=3, sharey=True)
    for place, row in zip(axes, (0, 2, 4)):
        place.bar(range(len(best)), probabilities[row][best], color=BLUE)
        place.set_xticks(range(len(best)), [words[k] for k in best], rotation=60, ha="right")
        place.set(title=f"temperature {temperatures[row]:g}", ylim=(0, 0.8))
    axes[0].set_ylabel("probability")
    first = best[0]
    return drawn, (
        f"The eight most probable words after \"{' '.join(site.words('sentence'))}\". The probability of \"{words[first]}\" is {probabilities[0][first]:.2f} at temperature "
        f"{temperatures[0]:g}, {probabilities[2][first]:.2f} at 1 and {probabilities[4][first]:.2f} at {temperatures[4]:g}. The order of the words never changes."
    )


@picture
def merges(site):
    """A text as bytes, and after each merge."""
    trace = site.trace_called(LESSON)
    texts = {int(byte): chr(byte) for byte in trace["byte_pairs.bytes"]}
    drawn, axes = figure(6.1, 2.9)
    count = 1 + max(int(step["path"].split(".")[2]) for step in trace.steps if step["path"].startswith("byte_pairs.merge."))
    for k in range(count):
        if k > 0:
            left, right = trace[f"byte_pairs.merge.{k}.pair"]
            texts[255 + k] = texts[int(left)] + texts[int(right)]
        ids = trace[f"byte_pairs.merge.{k}.ids"] if k > 0 else trace["byte_pairs.bytes"]
        shown = [texts[int(i)].replace(" ", "▁") for i in ids]
        x = 9.5
        axes.text(0, -k, f"after merge {k}" if k else "bytes", fontsize=9, color=QUIET, va="center")
        for i, text in zip(ids, shown):
            width = len(text)
            learned = int(i) >= 256
            axes.add_patch(token_box(x, -k, width, CYCLE[(int(i) - 256) // 3 % 5] if learned else FAINT, 0.45 if learned else 0.6))
            axes.text(x + width / 2, -k, text, ha="center", va="center", fontsize=8, family="monospace", color=INK)
            x += width
        axes.text(x + 0.4, -k, f"{len(ids)}", fontsize=9, va="center")
    axes.set(xlim=(0, 46), ylim=(-count + 0.4, 0.6))
    axes.axis("off")
    first, last = trace["byte_pairs.bytes"], trace[f"byte_pairs.merge.{count - 1}.ids"]
    return drawn, (
        f"Byte pairs learned merge by merge; ▁ is a space. Each merge joins the most frequent pair of neighbours into a new token. "
        f"{count - 1} merges shorten the text from {len(first)} bytes to {len(last)} tokens."
    )


def token_box(x, y, width, colour, strength):
    return Rectangle((x + 0.06, y - 0.36), width - 0.12, 0.72, facecolor=colour, alpha=strength, linewidth=0)


@picture
def replaced(site):
    """The parts of a layer: the formulas of the small model, and those of today's."""
    old, new = site.trace_called("story"), site.trace_called(LESSON)
    formula = lambda trace, path: trace.step(path).get("formula") or "given"
    parts = [
        ("norm", formula(old, "norm.normalized"), formula(new, "norm.normalized")),
        ("norm's end", formula(old, "norm.output"), formula(new, "norm.output")),
        ("positions", formula(old, "embedded"), "rotary_query, rotary_key: interleave(x[...] * cos(angles) - ...)"),
        ("keys of head 1", formula(old, "layers.0.self_attn.head.1.keys"), formula(new, "layers.0.self_attn.head.1.rotary_key.x")),
        ("projection", formula(old, "layers.0.self_attn.query"), formula(new, "layers.0.self_attn.query")),
        ("activation", formula(old, "layers.0.feed_forward.activated"), formula(new, "layers.0.feed_forward.activated")),
        ("gate", "none", formula(new, "layers.0.feed_forward.gated")),
        ("weights", formula(old, "layers.0.self_attn.head.1.weights"), formula(new, "layers.0.self_attn.head.1.weights")),
        ("logits", formula(old, "logits"), formula(new, "logits")),
    ]
    drawn, axes = figure(6.1, 7.4)
    y = 0.0
    for name, before, after in parts:
        left, right = (textwrap.fill(text, 24) for text in (before, after))
        height = 0.55 + 0.5 * max(left.count("\n"), right.count("\n"))
        y -= height / 2 + 0.1
        changed = before.replace("token_embedding", "embedding") != after
        axes.text(0, y, name, va="center", fontsize=11, color=QUIET)
        for x, text, colour in ((2.9, left, FAINT), (8.8, right, ORANGE if changed else FAINT)):
            axes.add_patch(Rectangle((x - 0.12, y - height / 2), 5.7, height, facecolor=colour, alpha=0.35, linewidth=0))
            axes.text(x, y, text, va="center", fontsize=11, family="monospace", color=INK)
        y -= height / 2
    axes.text(2.9, 0.3, "the small model (as GPT-2)", fontsize=11)
    axes.text(8.8, 0.3, "this lesson's model (as Llama)", fontsize=11)
    axes.set(xlim=(0, 14.6), ylim=(y - 0.1, 0.7))
    axes.axis("off")
    changed = sum(before.replace("token_embedding", "embedding") != after for _, before, after in parts)
    return drawn, (
        f"The formulas of two runs side by side, changed ones in orange: {changed} of {len(parts)}. The softmax of the masked scores and the tied output are the same."
    )


@picture
def rounding(site):
    """How far three types are off, step by step."""
    exact = site.trace_called("story")
    places = ["embedded", "layers.0.residual1", "layers.0.output", "layers.1.residual1", "layers.1.output", "norm.output", "logits"]
    drawn, axes = figure(6.1, 2.9)
    worst = {}
    for kind, colour in (("bfloat16", ORANGE), ("float16", PURPLE), ("float32", GREEN)):
        found = site.trace_called(kind)
        errors = [np.abs(found[place].astype(float) - exact[place]).max() for place in places]
        worst[kind] = errors
        axes.semilogy(range(len(places)), errors, marker="o", color=colour)
        axes.annotate(kind, (len(places) - 1, errors[-1]), (8, 0), textcoords="offset points", va="center", fontsize=9)
    axes.set_xticks(range(len(places)), [place.replace("layers.", "layer ").replace(".", " ", 1) if place.startswith("layers") else place for place in places], rotation=25, ha="right")
    axes.set(ylabel="largest error", xlim=(-0.3, len(places) + 0.2))
    axes.grid(axis="y")
    return drawn, (
        "The small model on the story, every number rounded: the largest difference from float64 at seven steps. In the logits it is "
        + ", ".join(f"{worst[kind][-1]:.1g} in {kind}" for kind in worst) + "."
    )
