"""Pictures of what attention across machines costs: predicted from 1 to 1024 ranks, and beside what was measured."""

import numpy as np

from generator import mpi_cost as model
from generator.mpi_cost_tables import TITLES, alone, amount
from generator.picture import BLUE, GREEN, ORANGE, PURPLE, QUIET, figure, picture

COLOURS = {"ring": BLUE, "Ulysses": ORANGE, "tensor parallel": GREEN}
MARKS = {"ring": "o", "Ulysses": "s", "tensor parallel": "^"}
RANKS = [2**i for i in range(11)]
TOKENS = [1024 * 2**i for i in range(14)] + [10_000_000]


def machines(site):
    return (("constants measured here", alone(site.measured(model).machine)), ("published constants", model.PUBLISHED))


def ranks_axis(axes):
    axes.set_xscale("log", base=2)
    axes.set(xticks=RANKS[::2], xticklabels=[str(ranks) for ranks in RANKS[::2]], xlabel="ranks")
    axes.minorticks_off()
    axes.grid(True)


@picture
def times(site):
    """Seconds of a layer by ranks, with a million tokens."""
    tokens = 1_000_000
    drawn, axes = figure(7, 3.2, columns=2)
    for place, (title, machine) in zip(axes, machines(site)):
        for name, way in model.WAYS.items():
            times_of_way = [model.seconds(way(model.LARGE, tokens, ranks), machine, ranks) for ranks in RANKS]
            place.loglog(RANKS, times_of_way, f"{MARKS[name]}-", markersize=3.5, color=COLOURS[name], label=name)
        once = model.seconds(model.ring(model.LARGE, tokens, 1), machine, 1)
        place.loglog(RANKS, [once / ranks for ranks in RANKS], ":", color=QUIET, label="one rank's time / P")
        place.set(title=title, ylabel="seconds")
        ranks_axis(place)
    axes[0].legend(fontsize=8)
    ring, ulysses = (model.seconds(model.WAYS[name](model.LARGE, tokens, 1024), model.PUBLISHED, 1024) for name in ("ring", "Ulysses"))
    return drawn, (
        f"Predicted time of one layer of {model.LARGE.heads} heads with {tokens:,} tokens. Beyond {model.LARGE.heads} ranks the heads are used up: the times of "
        f"Ulysses and tensor parallel fall no further. With the published constants and 1024 ranks the ring takes {amount(ring, 's')}, Ulysses {amount(ulysses, 's')}."
    )


@picture
def winners(site):
    """Which way is the fastest, by tokens and ranks."""
    drawn, axes = figure(7, 3.2, columns=3, sharey=True, gridspec_kw={"width_ratios": (1, 1, 0.05)})
    for place, (title, machine) in zip(axes, machines(site)):
        draw_winners(place, machine)
        place.set(title=title, ylim=(700, 1.5e7), yscale="log")
        ranks_axis(place)
    axes[0].set(ylabel="tokens")
    axes[2].axis("off")
    axes[2].legend(*axes[1].get_legend_handles_labels(), fontsize=8, loc="center left")
    far = model.tokens_that_hide(model.PUBLISHED, model.PUBLISHED.far)
    return drawn, (
        "The way that takes least time by the model; a dot where several differ by less than 2 %. Above the dashed line each rank has enough tokens for a hop of the ring to take longer to compute than to "
        f"send: {far:,.0f} tokens per rank between nodes, with the published constants."
    )


def draw_winners(axes, machine):
    best = {(ranks, tokens): model.fastest_ways(model.LARGE, machine, tokens, ranks) for ranks in RANKS[1:] for tokens in TOKENS}
    kinds = {name: ([name], MARKS[name], COLOURS[name]) for name in model.WAYS} | {"none has the memory": ([], "x", QUIET)}
    for label, (winners_of_kind, mark, colour) in kinds.items():
        draw_points(axes, [point for point, found in best.items() if found == winners_of_kind], label, mark, colour)
    draw_points(axes, [point for point, found in best.items() if len(found) > 1], "several, within 2 %", ".", QUIET)
    if not machine.overlaps:
        return
    hidden = [ranks * model.tokens_that_hide(machine, machine.link(ranks)) for ranks in RANKS[1:]]
    axes.plot(RANKS[1:], hidden, "--", color=PURPLE, label="above: the ring\nhides its messages")


def draw_points(axes, points, label, mark, colour):
    axes.scatter(*zip(*(points or [(np.nan, np.nan)])), s=26, linewidths=1, marker=mark, color=colour, label=label)


@picture
def memory(_site):
    """Bytes of a rank by ranks, with a million tokens."""
    tokens = 1_000_000
    drawn, axes = figure(6, 3)
    machine = model.PUBLISHED
    for name, way in model.WAYS.items():
        gigabytes = [way(model.LARGE, tokens, ranks).memory * machine.number / 1e9 for ranks in RANKS]
        axes.loglog(RANKS, gigabytes, f"{MARKS[name]}-", markersize=3.5, color=COLOURS[name], label=name)
    axes.axhline(machine.capacity / 1e9, linestyle="--", color=QUIET, label="memory of a rank")
    axes.set(ylabel="GB", yticks=(10, 20, 40, 80, 160), yticklabels=("10", "20", "40", "80", "160"))
    ranks_axis(axes)
    axes.legend(fontsize=8)
    weights = model.LARGE.weights * model.LARGE.layers * machine.number / 1e9
    return drawn, (
        f"Predicted memory of a rank with {tokens:,} tokens in bfloat16: the weights of {model.LARGE.layers} layers and the tensors of one. Ring and Ulysses go down towards "
        f"the weights, {weights:.1f} GB, which every rank holds; tensor parallel divides these, but holds all tokens on every rank."
    )


@picture
def check(site):
    """Measured over predicted time of every run."""
    drawn, axes = figure(6, 3)
    runs = list(site.measured(model).runs())
    for (what, title), colour in zip(TITLES.items(), COLOURS.values()):
        for ranks, marker in ((1, "o"), (2, "s"), (4, "^")):
            points = [(predicted, found) for row, predicted, found in runs if (row["what"], row["ranks"]) == (what, ranks)]
            axes.loglog(*zip(*points), marker, color=colour, markersize=5, label=f"{title}, {ranks} rank{'s' if ranks > 1 else ''}")
    ends = np.array([min(predicted for _, predicted, _ in runs) / 1.5, max(found for _, _, found in runs) * 1.5])
    axes.loglog(ends, ends, color=QUIET, linewidth=1)
    axes.set(xlabel="predicted seconds", ylabel="measured seconds")
    axes.grid(True)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.02, 0.5))
    ratios = [found / predicted for _, predicted, found in runs]
    return drawn, (
        f"Every run beside the line on which prediction and measurement are equal. Measured times are {min(ratios):.2f} to {max(ratios):.2f} times the predicted ones, "
        f"with a median of {np.median(ratios):.2f}."
    )
