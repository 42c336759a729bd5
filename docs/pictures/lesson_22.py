"""Pictures of lesson 22."""

import numpy as np

from generator.picture import QUIET, figure, heatmap, picture

LESSON = "22_low_rank_and_talking_heads"


def singular(form):
    return np.linalg.svd(np.asarray(form, float), compute_uv=False)


@picture
def singular_values(site):
    """How many directions a head compares: singular values of the forms."""
    trained, trace = site.trace_called("sentence"), site.trace_called(LESSON)
    drawn, (left, right) = figure(7, 3.2, columns=2)
    query, key = (trained[f"layers.1.self_attn.{name}_weights"].astype(float) for name in ("query", "key"))
    d_k = trained["layers.1.self_attn.head.0.queries"].shape[-1]
    heads, (_, named, _) = query.shape[1] // d_k, site.head("name_for_pronoun")
    for head in range(heads):
        of_head = slice(head * d_k, (head + 1) * d_k)
        values = singular(query[:, of_head] @ key[:, of_head].T)
        left.plot(range(1, len(values) + 1), values, marker="o", markersize=2.5, linewidth=1, label=f"head {head}")
        if head == named:
            largest, last, after = values[0], values[d_k - 1], values[d_k]
    left.plot(range(1, len(query) + 1), singular(query @ key.T), color=QUIET, linestyle="--", linewidth=1, label="sum of the heads")
    left.set(title=f"small model: d_model = {len(query)}, d_k = {d_k}", xlabel="number of the singular value", ylabel="singular value")
    left.legend(fontsize=8)
    for name, path in (("head 0", "head.0"), ("head 1", "head.1"), ("sum", "sum"), ("mixture 0", "mixed.0"), ("mixture 1", "mixed.1")):
        values = singular(trace[f"{path}.form"])
        right.plot(range(1, len(values) + 1), values, marker="o", markersize=3, linewidth=1, label=name)
    right.set(title="this lesson: d_model = 4, d_k = 2", xlabel="number of the singular value", xticks=range(1, 5))
    right.legend(fontsize=8)
    return drawn, (
        f"Singular values of M = W_q W_kᵀ. First: each trained head of layer 1 has {d_k} that are not 0, of {len(query)}; in head {named} the largest is "
        f"{largest:.2f}, number {d_k} is {last:.2f} and number {d_k + 1} is {abs(round(after, 6)):g}. Second: the two heads of this lesson have rank "
        f"{int(trace['head.0.rank'])}, their sum and both mixtures rank {int(trace['sum.rank'])}."
    )


@picture
def mixing(site):
    """Weights of two heads before and after both mixtures."""
    trace = site.trace_called(LESSON)
    drawn, axes = figure(7, 4.6, rows=2, columns=3)
    labels = [f"token {i}" for i in range(len(trace["inputs"]))]
    for head, row in enumerate(axes):
        heatmap(row[0], trace[f"head.{head}.weights"], labels, title=f"head {head}, unmixed")
        heatmap(row[1], trace[f"talking.head.{head}.weights"], title=f"softmax {head} of mixed scores")
        heatmap(row[2], trace[f"talking.head.{head}.mixed_weights"], title=f"mixed weights {head}")
    before, after = trace["talking.head.0.weights"][0], trace["talking.head.0.mixed_weights"][0]
    return drawn, (
        f"Weights without talking (first), after mixing the scores (second), and after mixing the weights too (third); negative numbers are "
        f"orange. Row 0 of softmax 0 sums to {before.sum():.4f}, row 0 of mixture 0 to {after.sum():.4f}."
    )
