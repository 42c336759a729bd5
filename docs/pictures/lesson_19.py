"""Pictures of lesson 19."""

import numpy as np
from generator.picture import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, figure, picture

LESSON = "19_across_machines"
WORDS = "Lily had a red ball . She took".split()


@picture
def hops(site):
    """Whose keys and values each rank has at each hop, in plain order."""
    trace = site.trace_called(LESSON)
    rank_of = trace["work.plain.rank_of"]
    drawn, axes = figure(4.9, 2.5)
    for hop in range(4):
        for rank, source in enumerate(trace[f"work.plain.hop.{hop}.sources"].astype(int)):
            words = " ".join(word for word, holder in zip(WORDS, rank_of) if holder == source)
            computes = trace[f"work.plain.hop.{hop}.scores"][rank] > 0
            axes.text(hop, rank, words, ha="center", va="center", fontsize=9, color=INK if computes else ORANGE)
        if hop < 3:
            for rank in range(3):
                axes.annotate("", (hop + 0.72, rank + 0.82), (hop + 0.3, rank + 0.18), arrowprops={"arrowstyle": "->", "color": BLUE, "lw": 0.9})
    axes.set(xlim=(-0.5, 3.5), ylim=(3.5, -0.6), xticks=range(4), xticklabels=[f"hop {hop}" for hop in range(4)])
    axes.set(yticks=range(4), yticklabels=[f"rank {rank}" for rank in range(4)])
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.xaxis.tick_top()
    return drawn, (
        "The words whose keys and values each rank has at each hop, in plain order. After a hop they go on to the next rank, and from rank 3 to rank 0. "
        "Orange: all of them come later than the rank's own words, so that the causal mask leaves nothing to compute."
    )


@picture
def work(site):
    """Scores per rank and hop in plain and zigzag order."""
    trace = site.trace_called(LESSON)
    drawn, axes = figure(7, 2.6, columns=2, sharey=True)
    waited = {}
    for place, order in zip(axes, ("plain", "zigzag")):
        scores = np.array([trace[f"work.{order}.hop.{hop}.scores"] for hop in range(4)])
        start = np.zeros(4)
        for hop, colour in enumerate((BLUE, GREEN, PURPLE, ORANGE)):
            busiest = scores[hop].max()
            place.barh(range(4), np.full(4, busiest), left=start, color="none", edgecolor=FAINT)
            place.barh(range(4), scores[hop], left=start, color=colour, alpha=0.7, height=0.7, label=f"hop {hop}")
            start = start + busiest
        waited[order] = int(trace[f"work.{order}.waited"])
        place.set(title=f"{order} order", xlabel="scores, one after the other", xlim=(0, 16), ylim=(3.6, -0.6), xticks=range(0, 16, 3))
        place.set(yticks=range(4), yticklabels=[f"rank {rank}" for rank in range(4)])
    axes[1].legend(loc="lower right", fontsize=8)
    return drawn, (
        f"What each rank computes at each hop, where a hop ends when its busiest rank has ended; empty parts are waiting. In plain order the hops take as long as "
        f"{waited['plain']} scores and rank 0 computes 3 of them; in zigzag order {waited['zigzag']}, and nobody waits."
    )


@picture
def bytes(site):  # noqa: A001
    """MiB that one rank sends, by the number of ranks."""
    trace = site.trace_called(LESSON)
    ranks = trace["predicted.growth.ranks"]
    drawn, axes = figure(4.9, 2.8)
    for name, label, colour in (("ring", "ring", BLUE), ("ulysses", "Ulysses", GREEN), ("sums", "tensor parallel", ORANGE)):
        sent = trace[f"predicted.growth.{name}"]
        axes.loglog(ranks, sent, "o-", color=colour)
        axes.annotate(label, (ranks[-1], sent[-1]), (6, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set(xlabel="ranks", ylabel="MiB sent by one rank", xlim=(ranks[0] / 1.2, ranks[-1] * 2.6), xticks=ranks, xticklabels=[str(int(p)) for p in ranks])
    axes.set(yticks=[256, 512, 1024, 2048, 4096, 8192], yticklabels=["256", "512", "1024", "2048", "4096", "8192"])
    axes.minorticks_off()
    axes.grid(True)
    ring, ulysses, sums = (trace[f"predicted.growth.{name}"][-1] for name in ("ring", "ulysses", "sums"))
    return drawn, (
        f"What one rank sends for one layer of {int(trace['predicted.growth.n']):,} tokens, on log axes. With {int(ranks[-1])} ranks it is {ring:.0f} MiB in a ring, "
        f"{ulysses:.0f} MiB by Ulysses and {sums:.0f} MiB with tensor parallelism."
    )
