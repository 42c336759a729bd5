"""What lesson 19 has to give, by NumPy and PyTorch in float64.

Contexts are PyTorch's attention, of all keys or of those up to a hop at once, never merged; pairs are counted one by one.
generate.py calls lesson_19(), what one process computes, and lesson_19_on_ranks(), what ranks compute together, which
have float32 or an order of their own, and writes what they return.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

import layers
import small_model
from case import within

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))
import planted

RANKS = 4
PLAIN = np.arange(8).reshape(RANKS, 2)
ZIGZAG = np.array([[r, 7 - r] for r in range(RANKS)])


def heads():
    """Queries, keys and values of the small model's first layer on eight words, as float32 has them."""
    vocabulary = small_model.json.loads((small_model.FOLDER / "config.json").read_text())["vocabulary"]
    ids = [vocabulary.index(word) for word in (small_model.grammar.SENTENCE + " took").split()]
    steps = small_model.small_model(ids)
    names = ("queries", "keys", "values")
    return {name: np.stack([steps[f"layers.0.self_attn.head.{h}.{name}"] for h in range(4)]).astype(np.float32).astype(float) for name in names}


def attend(scores, values):
    """m, l and the context of masked scores, in any number of dimensions; zeros where all is masked."""
    some = torch.from_numpy(scores)
    largest = scores.max(axis=-1)
    shift = np.where(largest == -np.inf, 0, largest)
    total = np.exp(torch.logsumexp(some, dim=-1).numpy() - shift)
    return largest, total, torch.softmax(some, dim=-1).nan_to_num(0.0).numpy() @ values


# ---------------------------------------------------------------------------------------------------- one process


def by_hand(queries, keys, values):
    """Rank 3 in plain order, in the first head."""
    golden = {"positions": np.arange(8.0), "queries": queries, "keys": keys, "values": values}
    asking = queries[6:]
    scores = asking @ keys.T / np.sqrt(8)
    mask = np.arange(8) <= np.arange(6, 8)[:, None]
    masked = np.where(mask, scores, -np.inf)
    before, own = None, []
    for hop in range(RANKS):
        here = slice(6 - 2 * hop, 8 - 2 * hop)
        largest, total, context = attend(masked[:, here], values[here])
        own.append((total, context))
        steps = {"mask": mask[:, here], "scores": scores[:, here], "masked": masked[:, here], "largest": largest, "sum": total, "context": context}
        merged = attend(masked[:, here.start :], values[here.start :])
        if hop > 0:
            steps = dict(zip(("largest_before", "sum_before", "context_before"), before)) | steps
            shares = {"share_before": before[1] * np.exp(before[0] - merged[0]), "share": total * np.exp(largest - merged[0])}
            steps |= {"merged_largest": merged[0]} | shares
        else:
            steps |= {"merged_largest": merged[0]}
        golden |= within(f"hop.{hop}", steps | {"merged_sum": merged[1], "merged_context": merged[2]})
        before = merged
    unscaled = asking @ keys.T
    weights = torch.softmax(torch.from_numpy(masked), dim=-1).numpy()
    golden |= within("whole", {
        "keys": keys, "values": values, "queries": asking, "scores": unscaled, "scaled": scores, "causal": mask, "mask": mask, "masked": masked,
        "weights": weights, "context": weights @ values,
    })  # fmt: skip
    total = sum(part[0] for part in own)
    context = sum(part[0][:, None] * part[1] for part in own) / total[:, None]
    return golden | within("wrong", {"sum": total, "context": context, "off": np.abs(context - weights @ values).max()})


def work(tokens):
    pairs = [[sum(key <= query for query in mine for key in theirs) for theirs in tokens] for mine in tokens]
    rank_of = [next(r for r in range(RANKS) if token in tokens[r]) for token in range(8)]
    golden, waited = {"rank_of": rank_of, "pairs": pairs}, 0
    for hop in range(RANKS):
        sources = [(rank - hop) % RANKS for rank in range(RANKS)]
        scores = [pairs[rank][source] for rank, source in enumerate(sources)]
        golden |= within(f"hop.{hop}", {"sources": sources, "scores": scores})
        waited += max(scores)
    return golden | {"waited": waited}


def sent():
    """By each rank: what leaves it, message by message, in numbers of 4 bytes; of 8 bytes for the sums."""
    numbers = np.float32().nbytes
    block = 2 * 4 * 8 * 2  # keys and values of 2 tokens, 4 heads and 8 features
    ring = numbers * sum(block for _ in range(RANKS - 1))
    there = numbers * sum(3 * 2 * 8 for _ in range(RANKS - 1))  # queries, keys and values of 2 tokens and one head, to each other rank
    back = numbers * sum(2 * 8 for _ in range(RANKS - 1))
    sums = np.float64().nbytes * 2 * 8 * 8
    return numbers * block, ring, there, back, sums


def predicted():
    block, ring, there, back, sums = sent()
    each = lambda number: np.full(RANKS, number)
    golden = within("bytes", {
        "h": 4, "n": 8, "d_k": 8, "d_v": 8, "d_model": 8, "layer_tokens": 8, "ring_tokens": each(2), "tokens": each(2), "heads": each(1), "block": each(block),
        "ring": each(ring), "there": each(there), "back": each(back), "ulysses": each(there + back), "sums": each(sums),
    })  # fmt: skip
    ranks = np.array([2.0, 4, 8, 16, 32])
    all_tokens = 131072 * 32 * 128 * 4 / 2**20
    golden |= within("growth", {
        "n": 131072, "h": 32, "d": 128, "ranks": ranks, "own": all_tokens / ranks,
        "ring": [2 * all_tokens / p * (p - 1) for p in ranks], "ulysses": [4 * all_tokens / p * (1 - 1 / p) for p in ranks],
        "sums": [2 * 2 * (p - 1) / p * all_tokens for p in ranks], "ring_holds": [6 * all_tokens / p for p in ranks],
        "ulysses_holds": [8 * all_tokens / p for p in ranks], "sums_hold": [all_tokens + 4 * all_tokens / p for p in ranks],
    })  # fmt: skip
    return golden


def lesson_19():
    given = heads()
    golden = within("model.heads", given) | given
    golden |= within("by_hand.rank.3", by_hand(*(array[0] for array in given.values())))
    plain, zigzag = work(PLAIN), work(ZIGZAG)
    golden |= within("work.plain", plain) | within("work.zigzag", zigzag) | {"work.ratio": plain["waited"] / zigzag["waited"]}
    return golden | within("predicted", predicted())


# ------------------------------------------------------------------------------------------------------ four ranks


def around_the_ring(queries, keys, values):
    golden = {}
    allowed = np.tril(np.ones((8, 8), bool))
    masked = np.where(allowed, queries @ keys.transpose(0, 2, 1) / np.sqrt(8), -np.inf)
    for rank in range(RANKS):
        mine, met = masked[:, ZIGZAG[rank]], []
        for hop in range(RANKS):
            here = ZIGZAG[rank - hop].tolist()
            met += here
            steps = dict(zip(("largest", "sum", "context"), attend(mine[:, :, here], values[:, here])))
            merged = dict(zip(("merged_largest", "merged_sum", "merged_context"), attend(mine[:, :, met], values[:, met])))
            golden |= within(f"ring.rank.{rank}.hop.{hop}", {name: array[None] for name, array in (steps | merged).items()})
    context = attend(masked, values)[2][None]
    return golden | {"ring.context": context, "ulysses.context": context}


def divided_layer(d_model=8, d_ff=16):
    """The whole layer, by nn.TransformerEncoderLayer on one process."""
    numbers = planted.SplitMix(19)
    x = numbers(8, d_model)
    maps = [(numbers(a, b, scale=0.5), numbers(b, scale=0.5)) for a, b in [(d_model, d_model)] * 4 + [(d_model, d_ff), (d_ff, d_model)]]
    tensor = lambda array: torch.from_numpy(np.ascontiguousarray(array))
    layer = nn.TransformerEncoderLayer(d_model, 4, d_ff, dropout=0, batch_first=True, dtype=torch.float64)
    state = {
        "self_attn.in_proj_weight": tensor(np.concatenate([weight.T for weight, _ in maps[:3]])),
        "self_attn.in_proj_bias": tensor(np.concatenate([bias for _, bias in maps[:3]])),
    }
    for name, (weight, bias) in zip(("self_attn.out_proj", "linear1", "linear2"), maps[3:]):
        state |= {f"{name}.weight": tensor(weight.T), f"{name}.bias": tensor(bias)}
    layer.load_state_dict(layer.state_dict() | state)
    with torch.no_grad():
        steps = layers.encoder_layer(tensor(x), layer.state_dict(), "post", "relu", 4, None)
        layers.expect(steps["output"], layer(tensor(x)[None])[0])
    seams = {"self_attn.output": "self_attn.output", "feed_forward.output": "feed_forward.output", "norm2.output": "output"}
    return {f"layer.rank.{rank}.{name}": steps[step].numpy() for rank in range(RANKS) for name, step in seams.items()}


def lesson_19_on_ranks():
    _, ring, there, back, sums = sent()
    golden = around_the_ring(**heads()) | divided_layer()
    counts = {"ring": ring, "ulysses": there + back, "layer": sums}
    return golden | {f"{way}.sent": np.full(RANKS, count) for way, count in counts.items()}
