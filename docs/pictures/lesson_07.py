"""Pictures of lesson 7."""

from generator.picture import BLUE, GREEN, INK, PAPER, QUIET, figure, picture


@picture
def two_sequences(site):
    """Self-attention joins a sequence with itself, cross-attention joins two; a line per weight."""
    trace = site.trace_called("07_self_and_cross")
    passage, question = trace["passage"], trace["question"]
    drawn, (left, right) = figure(7.0, 3.9, columns=2)
    _joined(left, passage, passage, trace["self.weights"], BLUE, "self-attention", "passage", "passage")
    _joined(right, passage, question, trace["cross.weights"], GREEN, "cross-attention", "passage", "question")
    weights = trace["cross.weights"]
    n, m = divmod(int(weights.argmax()), weights.shape[1])
    return drawn, (
        "Each token is shown as its row of numbers. A thicker line means a larger weight. In self-attention queries and keys are the same "
        f"{len(passage)} tokens. In cross-attention the queries are the passage's {len(passage)} tokens, and keys and values the "
        f"question's {len(question)}. The largest weight there is {weights[n, m]:.4f}, from passage token {n} to question token {m}."
    )


def _joined(axes, queries, keys, weights, colour, title, of_queries, of_keys):
    """Queries on the left, keys on the right, a line per weight between them."""
    left, right = ([-(i + 0.5) / len(rows) for i in range(len(rows))] for rows in (queries, keys))
    for n, from_ in enumerate(left):
        for m, to in enumerate(right):
            axes.plot([0.12, 0.88], [from_, to], color=INK, alpha=float(weights[n, m]), linewidth=0.5 + 4 * weights[n, m],
                      solid_capstyle="butt")  # fmt: skip
    _tokens(axes, 0, left, queries, BLUE)
    _tokens(axes, 1, right, keys, colour)
    axes.text(0, 0.02, f"{of_queries}\n(queries)", ha="center", va="bottom", color=QUIET, fontsize=9)
    axes.text(1, 0.02, f"{of_keys}\n(keys, values)", ha="center", va="bottom", color=QUIET, fontsize=9)
    axes.set(xlim=(-0.25, 1.25), ylim=(-1.02, 0.2))
    axes.set_title(f"{title}: {weights.shape[0]} × {weights.shape[1]} weights")
    axes.set_axis_off()


def _tokens(axes, x, heights, rows, colour):
    for i, (y, row) in enumerate(zip(heights, rows)):
        axes.text(x, y, f"{i}:  " + "  ".join(f"{number:.0f}" for number in row), ha="center", va="center", fontsize=9, color=INK,
                  bbox={"boxstyle": "round,pad=0.4", "facecolor": PAPER, "edgecolor": colour})  # fmt: skip
