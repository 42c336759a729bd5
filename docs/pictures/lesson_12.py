"""Pictures of lesson 12."""

from generator.picture import BLUE, GREEN, figure, heatmap, picture


@picture
def masks(site):
    """Both masks of a decoder layer: which key each query can attend to."""
    trace = site.trace_called("12_decoder")
    causal, memory = trace["causal"], trace["padded.memory_mask"]
    target = [f"target {i}" for i in range(len(causal))]
    source = [f"source {j}" for j in range(memory.shape[1])]
    drawn, axes = figure(6.5, 3, columns=2)
    grid(axes[0], causal, target, target, BLUE, "self-attention: causal")
    grid(axes[1], memory, target, source, GREEN, "cross-attention: source padding")
    return drawn, (
        f"The two masks of a decoder layer; a row per query, a column per key, filled where the query can attend. "
        f"Self-attention allows {int(causal.sum())} of {causal.size} pairs: no later token. Cross-attention allows "
        f"{int(memory.sum())} of {memory.size}: every source token but the padding at the end."
    )


def grid(axes, mask, rows, columns, colour, title):
    heatmap(axes, mask, rows, columns, colour=colour, numbers=False, largest=1.6, title=title)
    for i, j in zip(*mask.nonzero()):
        axes.text(j, i, "✓", ha="center", va="center")
