"""Pictures of lesson 15: losses, heads that form, mistakes, and the experiment on film reviews."""

import json

import numpy as np
from generator.picture import BLUE, GREEN, INK, ORANGE, PURPLE, QUIET, RED, figure, heatmap, picture
from matplotlib.patches import Rectangle

HEAD = 4  # of the eight, counted through both layers: head 0 of layer 1
MISTAKES = {
    "targets_not_shifted": ("target not shifted", RED), "padding_in_loss": ("padding in the loss", ORANGE),
    "softmax_twice": ("softmax twice", PURPLE), "gradients_not_cleared": ("gradients not cleared", GREEN),
    "positions_forgotten": ("positions forgotten", QUIET),
}  # fmt: skip


@picture
def name_head(site):
    """One head on the sentence at four times of its training."""
    words, run = site.words("sentence"), site.trace_called("15_history")
    steps = (0, 20, 100, 2000)
    maps = [run[f"maps.{step}.head.{HEAD}"] for step in steps]
    drawn, axes = figure(7.0, 2.6, columns=4)
    stop = words.index(".")
    for place, weights, step in zip(axes, maps, steps):
        heatmap(place, weights, words, words, numbers=False, title=f"step {step}", largest=1)
        place.add_patch(Rectangle((-0.5, stop - 0.5), 1, 1, fill=False, edgecolor=INK, linewidth=1.4))
        place.tick_params(labelsize=7)
    found = ", ".join(f"{weights[stop, 0]:.2f} at step {step}" for weights, step in zip(maps, steps))
    return drawn, (
        "Head 0 of layer 1 on the sentence while the model is trained; rows are queries, columns are keys. The framed cell is the weight "
        f"that the full stop puts on Lily: {found}."
    )


@picture
def losses(site):
    """The loss of each step, and of stories that are kept apart."""
    run = site.trace_called("15_history")
    training, curve, grammar = run["losses"], run["curve"], run["grammar_loss"].item()
    drawn, axes = figure(6.1, 2.8)
    axes.plot(np.arange(len(training)), training, color=BLUE, alpha=0.4, linewidth=0.8, label="loss of the step")
    axes.plot(20 * np.arange(1, len(curve) + 1), curve, color=BLUE, label="stories that are kept apart")
    axes.axhline(grammar, color=ORANGE, linestyle="--", linewidth=1.2, label="lowest possible loss")
    axes.set(xlabel="step", ylabel="nats per word", ylim=(0, 5))
    axes.legend()
    return drawn, (
        f"The loss of each of {len(training)} steps falls from {training[0]:.2f} to {training[-1]:.2f}; on 100 of the stories that are kept apart it ends "
        f"at {curve[-1]:.2f}. The grammar leaves {grammar:.2f} open."
    )


@picture
def heads_learned(site):
    """The average weight of the best head for each role, before training and after."""
    run = site.trace_called("15_history")
    names = ("word before", "thing: its colour", "full stop: the name", "was: the colour")
    before, after = run["roles_before"], run["roles_after"]
    best = after.argmax(axis=1)
    rows = np.arange(len(names))
    drawn, axes = figure(6.1, 2.2)
    axes.barh(rows - 0.2, before[rows, best], height=0.38, color=QUIET, label="before")
    axes.barh(rows + 0.2, after[rows, best], height=0.38, color=BLUE, label="after")
    axes.set_yticks(rows, [f"{name} (head {head % 4} of layer {head // 4})" for name, head in zip(names, best)])
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="average weight on 100 stories")
    axes.legend()
    found = "; ".join(f"{name} {a:.2f}, then {b:.2f}" for name, a, b in zip(names, before[rows, best], after[rows, best]))
    return drawn, f"The average weight that a head puts on one kind of word, before training and after: {found}."


@picture
def mistakes(site):
    """The loss on stories that are kept apart, right and with each mistake."""
    drawn, axes = figure(6.1, 3.2)
    right = site.trace_called("15_right")["curve"]
    steps = 20 * np.arange(1, len(right) + 1)
    axes.plot(steps, right, color=BLUE, label="right")
    ends = [f"right {right[-1]:.2f}"]
    for name, (label, colour) in MISTAKES.items():
        curve = site.trace_called(f"15_{name}")["curve"]
        axes.plot(steps, curve, color=colour, label=label, linestyle="--" if name == "positions_forgotten" else "-")
        ends.append(f"{label} {curve[-1]:.2f}")
    axes.set(xlabel="step", ylabel="nats per word", ylim=(0, 7))
    axes.legend(ncols=2)
    return drawn, f"The loss on 100 of the stories that are kept apart, during {steps[-1]} steps, right and with one mistake each. It ends at: {'; '.join(ends)}."


@picture
def warm_up(site):
    """The loss on stories that are kept apart at two rates, with a warm-up and without."""
    drawn, axes = figure(6.1, 2.8)
    ends = []
    for name, label, colour, style in (
        ("right", "rate 0.005, warm-up", BLUE, "-"), ("no_warm_up", "rate 0.005", BLUE, "--"),
        ("fast", "rate 0.02, warm-up", ORANGE, "-"), ("fast_no_warm_up", "rate 0.02", ORANGE, "--"),
    ):  # fmt: skip
        curve = site.trace_called(f"15_{name}")["curve"]
        axes.plot(20 * np.arange(1, len(curve) + 1), curve, style, color=colour, label=label)
        ends.append(f"{label} {curve[-1]:.2f}")
    axes.set(xlabel="step", ylabel="nats per word", ylim=(0.8, 2.6))
    axes.legend(ncols=2)
    return drawn, f"The loss on 100 of the stories that are kept apart, with a warm-up of 100 steps (lines) and without (dashed). After 300 steps: {'; '.join(ends)}."


@picture
def reviews(site):
    """Test accuracy by epoch, three seeds each, beside the published one."""
    runs = json.loads((site.root / "lessons" / "15_training" / "reviews.json").read_text())
    epochs = np.arange(1, 6)
    drawn, axes = figure(4.9, 3.8)
    for name, colour in (("without positions", BLUE), ("with positions", ORANGE)):
        found = np.array(runs[name]["test_accuracy"])
        axes.fill_between(epochs, found.min(axis=0), found.max(axis=0), color=colour, alpha=0.2, linewidth=0)
        axes.plot(epochs, found.mean(axis=0), color=colour, label=f"{name}, mean of three seeds")
        axes.plot(epochs, runs[name]["published"], color=colour, linestyle=":", marker="o", markersize=4, label=f"{name}, published")
    axes.set(xlabel="epoch", ylabel="test accuracy", xticks=epochs)
    axes.legend(fontsize=9, loc="lower center", bbox_to_anchor=(0.5, 1))
    best = {name: np.max(runs[name]["test_accuracy"], axis=1).mean() for name in ("without positions", "with positions")}
    return drawn, (
        "Test accuracy after each epoch; the bands span three seeds. The best epoch has on average "
        f"{best['without positions']:.4f} without positions and {best['with positions']:.4f} with them."
    )
