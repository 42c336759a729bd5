"""What every step of lesson 18 has to give, by NumPy and PyTorch in float64.

The softmax of a row and attention's gradients are PyTorch's; m and l are those of all keys up to each place, by definition
and not by merging. generate.py calls lesson_18() and writes what it returns.
"""

import sys
from pathlib import Path

import numpy as np
import torch

import small_model
from case import within

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))
import planted

ROW = np.array([1, 5, 3, 6, 2, 4], float)
TILES = ((0, 2), (2, 4), (4, 6))
KEY_TILES = ((0, 3), (3, 6), (6, 7))


def softmax(x):
    return torch.softmax(torch.from_numpy(x), dim=-1).numpy()


def sums(scores):
    """m and l of some scores, along the last axis."""
    largest = scores.max(axis=-1)
    return largest, np.exp(torch.logsumexp(torch.from_numpy(scores), dim=-1).numpy() - largest)


def cost():
    n = np.array([1024.0, 4096, 16384, 65536])
    return {"n": n, "scores_mib": n * n * np.float32().nbytes / 2**20, "sums_mib": 2 * n * np.float32().nbytes / 2**20}


# ------------------------------------------------------------------------------------------------------ one row


def one_pass():
    golden, before = {"start.largest": -np.inf, "start.sum": 0.0}, (-np.inf, 0.0)
    for j in range(len(ROW)):
        golden |= within(f"key.{j}", dict(zip(("largest_before", "sum_before"), before)))
        largest, total = sums(ROW[: j + 1])
        golden |= within(f"key.{j}", {"largest": largest, "correction": np.exp(before[0] - largest), "sum": total})
        before = (largest, total)
    return golden | {"weights": softmax(ROW)}


def by_tiles():
    golden = {}
    for t, (first, last) in enumerate(TILES):
        golden |= within(f"tile.{t}", dict(zip(("largest", "sum"), sums(ROW[first:last]))))
    for t, (first, last) in enumerate(TILES[1:], 1):
        for name, scores in (("first_", ROW[:first]), ("second_", ROW[first:last]), ("", ROW[:last])):
            golden |= within(f"merged.{t}", dict(zip((f"{name}largest", f"{name}sum"), sums(scores))))
    return golden | {"weights": softmax(ROW)}


def mistakes():
    golden, rows = {}, {"uncorrected": [], "alone": []}
    for first, last in TILES:
        rows["uncorrected"].append(np.exp(ROW[first:last] - ROW[:last].max()))
        rows["alone"].append(np.exp(ROW[first:last] - ROW[first:last].max()))
    for name, parts in rows.items():
        exponentials = np.concatenate(parts)
        golden |= within(name, {"exponentials": exponentials, "weights": exponentials / exponentials.sum()})
    apart = np.concatenate([softmax(ROW[first:last]) for first, last in TILES])
    golden |= within("apart", {"weights": apart, "sum": len(TILES)})
    row = np.where(np.arange(6) < 2, -np.inf, ROW)
    golden |= within("masked", {"row": row, "largest": -np.inf, "sum": np.nan, "guarded": 0.0, "sum_after": np.nan, "guarded_after": sums(row[:4])[1]})
    return golden


# ------------------------------------------------------------------------------------------------ attention by tiles


def forward_tiles(scores, masked, values):
    n = len(scores)
    before = {"largest": np.full(n, -np.inf), "sum": np.zeros(n), "partial": np.zeros((n, values.shape[1]))}
    golden = within("start", before)
    for t, (first, last) in enumerate(KEY_TILES):
        largest, total = sums(masked[:, :last])
        partial = total[:, None] * (softmax(masked[:, :last]) @ values[:last])
        exponentials = np.exp(masked[:, first:last] - largest[:, None])
        golden |= within(f"tile.{t}", {f"{name}_before": array for name, array in before.items()})
        golden |= within(f"tile.{t}", {
            "scores": scores[:, first:last], "masked": masked[:, first:last], "largest": largest,
            "correction": np.exp(before["largest"] - largest), "exponentials": exponentials, "sum": total, "partial": partial,
        })  # fmt: skip
        before = {"largest": largest, "sum": total, "partial": partial}
    return golden


def backward(queries, keys, values, mask, arriving):
    """By PyTorch's autograd; the queries' gradients from the keys up to each tile by as many scores."""
    leaf = {name: torch.from_numpy(x).requires_grad_() for name, x in (("queries", queries), ("keys", keys), ("values", values))}
    scaled = leaf["queries"] @ leaf["keys"].T / keys.shape[1] ** 0.5
    scaled.retain_grad()
    weights = torch.softmax(scaled.masked_fill(~torch.from_numpy(mask), -torch.inf), dim=-1)
    weights.retain_grad()
    context = weights @ leaf["values"]
    context.backward(torch.from_numpy(arriving))
    grad = {name: x.grad.numpy() for name, x in leaf.items()}
    of_scaled, masked = scaled.grad.numpy(), np.where(mask, scaled.detach().numpy(), -np.inf)
    golden = dict(zip(("largest", "sum"), sums(masked)))
    golden |= {"delta": np.einsum("nv,nv->n", arriving, context.detach().numpy()), "start.grad_queries": np.zeros_like(queries)}
    before = golden["start.grad_queries"]
    for t, (first, last) in enumerate(KEY_TILES):
        golden |= within(f"tile.{t}", {
            "grad_queries_before": before, "scores": (queries @ keys.T)[:, first:last], "masked": masked[:, first:last],
            "weights": weights.detach().numpy()[:, first:last], "grad_values": grad["values"][first:last],
            "grad_weights": weights.grad.numpy()[:, first:last], "grad_scaled": of_scaled[:, first:last],
            "grad_keys": grad["keys"][first:last], "grad_queries": of_scaled[:, :last] @ keys[:last] / keys.shape[1] ** 0.5,
        })  # fmt: skip
        before = golden[f"tile.{t}.grad_queries"]
    np.testing.assert_allclose(golden["tile.2.grad_queries"], grad["queries"], rtol=1e-12, atol=1e-14)
    return golden | {"grad_keys": grad["keys"], "grad_values": grad["values"], "grad_queries": grad["queries"]}


def attention():
    steps = small_model.small_model()
    queries, keys, values = (steps[f"layers.0.self_attn.head.3.{name}"] for name in ("queries", "keys", "values"))
    queries, mask = queries[-2:], np.tri(7, dtype=bool)[-2:]
    scores = np.einsum("nk,mk->nm", queries, keys)
    masked = np.where(mask, scores / np.sqrt(keys.shape[1]), -np.inf)
    weights = softmax(masked)
    context = weights @ values
    golden = {"queries": queries, "keys": keys, "values": values, "causal": mask} | forward_tiles(scores, masked, values)
    golden["context"] = context
    scaled = scores / np.sqrt(keys.shape[1])
    golden |= within("whole", {
        "queries": queries, "keys": keys, "values": values, "mask": mask, "scores": scores, "scaled": scaled, "masked": masked, "weights": weights, "context": context,
    })  # fmt: skip
    golden["arriving"] = planted.SplitMix(18)(2, values.shape[1])
    return golden | within("back", backward(queries, keys, values, mask, golden["arriving"]))


def kernel(n=300, rows=60, columns=128):
    """Of the tiles of scores, those with a pair that a causal mask allows, found pair by pair."""
    i, j = np.tril_indices(n)
    met = len(set(zip((i // rows).tolist(), (j // columns).tolist())))
    tiles = -(-n // rows) * -(-n // columns)
    return {"n": n, "rows": rows, "columns": columns, "tiles": tiles, "met": met, "skipped": tiles - met}


def lesson_18():
    exponentials = np.exp(ROW - ROW.max())
    two = {"largest": ROW.max(), "exponentials": exponentials, "sum": sums(ROW)[1], "weights": softmax(ROW)}
    golden = within("cost", cost()) | {"row": ROW} | within("two_passes", two) | within("one_pass", one_pass())
    golden |= within("by_tiles", by_tiles()) | within("wrong", mistakes())
    return golden | attention() | within("kernel", kernel())
