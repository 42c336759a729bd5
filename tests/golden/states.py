"""Makes the golden of lesson 27: attention without softmax as a running sum, with decay, by the delta rule, and what is recalled.

By NumPy and PyTorch, from the mathematics; the gated DeltaNet's steps are those of gated_delta_net.py, which are held against
transformers' module.
"""

import sys
from pathlib import Path

import numpy as np
import torch

import gated_delta_net
from case import within

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))
import planted

QUERIES = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 1]], float)
KEYS = np.array([[1, 0, 0], [0, 1, 0], [0.6, 0.8, 0], [1, 0, 0], [0, 0, 1]], float)
VALUES = np.array([[1, 2], [3, 0], [-1, 1], [5, -2], [0, 4]], float)
DECAY, BETA = 0.5, 1.0
GIVEN = {"queries": QUERIES, "keys": KEYS, "values": VALUES}


def plain():
    scores = np.einsum("nk,mk->nm", QUERIES, KEYS)
    state = sum(np.outer(key, value) for key, value in zip(KEYS, VALUES))
    return GIVEN | {"scores": scores, "output": scores @ VALUES, "state": state, "regrouped": QUERIES @ state}


def recurrence(write):
    """write(previous, key, value) -> what it computes on the way, and the state"""
    state, outputs, steps = np.zeros((3, 2)), [], {}
    steps = GIVEN | {"decay": [DECAY], "beta": [BETA], "empty": state}
    for t, (query, key, value) in enumerate(zip(QUERIES, KEYS, VALUES)):
        token = {"previous": state, "query": query[None], "key": key[None], "value": value[None]}
        on_the_way, state = write(state, key, value)
        outputs.append(np.einsum("k,kv->v", query, state))
        steps |= within(f"token.{t}", token | on_the_way | {"state": state, "output": outputs[-1][None]})
    return steps | {"output": np.array(outputs)}


def corrected(previous, key, value):
    recalled = np.einsum("k,kv->v", key, previous)
    delta = BETA * (value - recalled)
    return {"recalled": recalled[None], "delta": delta[None]}, previous + np.outer(key, delta)


def masked(scores):
    n = len(scores)
    kept = np.array([[DECAY ** (i - j) if j <= i else 0 for j in range(n)] for i in range(n)])
    causal = np.tril(scores)
    return {"scores": scores, "values": VALUES, "decay": [DECAY], "causal": causal, "output": causal @ VALUES, "kept": kept,
            "fading": (scores * kept) @ VALUES}  # fmt: skip


def gated():
    draw = planted.SplitMix(27)
    model = {"g": 1, "h": 1, "d_k": 3, "d_v": 2, "width": 2}
    x = draw(5, 4)
    weights = {"query": draw(4, 3), "key": draw(4, 3), "value": draw(4, 2), "gate": draw(4, 2), "beta_logits": draw(4, 1), "decay_inputs": draw(4, 1)}
    weights |= {"kernel": draw(8, 2)[:, None], "dt_bias": draw(1), "a_log": draw(1), "norm": 1 + draw(2) * 0.25, "output": draw(2, 4)}
    weights = {name: torch.from_numpy(array) for name, array in weights.items()}
    run = lambda in_chunks: {name: step.numpy() for name, step in gated_delta_net.delta_net(torch.from_numpy(x), weights, model, in_chunks)[0].items()}
    return x, run(False), run(True)


def unit_rows(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def judged(steps, values):
    similar = steps["recalled"] @ values.T
    return steps | {"similar": similar, "right": np.mean([row.argmax() == i for i, row in enumerate(similar)])}


def recall():
    draw = planted.SplitMix(72)
    drawn = {"pair_keys": draw(12, 8), "pair_values": draw(12, 8)}
    keys, values = unit_rows(drawn["pair_keys"]), unit_rows(drawn["pair_values"])
    weights = torch.softmax(torch.from_numpy(16 * (keys @ keys.T)), dim=-1).numpy()
    aged = np.array([key * DECAY ** (len(keys) - 1 - i) for i, key in enumerate(keys)])
    state, writes = np.zeros((8, 8)), {"empty": np.zeros((8, 8))}
    for t, (key, value) in enumerate(zip(keys, values)):
        before, state = state, state + np.outer(key, value - key @ state)
        writes |= within(f"write.{t}", {"previous": before, "state": state})
    found = {
        "attention": {"weights": weights, "recalled": weights @ values},
        "sum": {"state": np.einsum("pk,pv->kv", keys, values), "recalled": keys @ np.einsum("pk,pv->kv", keys, values)},
        "faded": {"aged": aged, "state": aged.T @ values, "recalled": keys @ (aged.T @ values)},
        "delta": writes | {"recalled": keys @ state},
    }  # fmt: skip
    steps = {"decay": [DECAY], "keys": keys, "values": values}
    for rule, of_rule in found.items():
        steps |= within(rule, of_rule)
    for rule, of_rule in found.items():
        full = judged(of_rule, values)
        steps |= within(rule, {name: full[name] for name in ("similar", "right")})
    return drawn, steps


def cost():
    """Of Qwen3-Next-80B-A3B, layer by layer: each fourth layer has attention, the others a state."""
    n = np.array([512, 8192, 65536, 262144])
    groups, d_head, h, d_k, d_v, queries = 2, 256, 32, 128, 128, 16
    cache, state = n * groups * (d_head + d_head), sum(d_k * d_v for _ in range(h))
    mixed = sum(cache if (layer + 1) % 4 == 0 else state for layer in range(48))
    every = sum(cache for _ in range(48))
    by_attention = sum(n * d_head + n * d_head for _ in range(queries))
    return {"n": n, "groups": groups, "d_head": d_head, "h": h, "d_k": d_k, "d_v": d_v, "queries": queries, "cache": cache, "state": state,
            "every": every, "mixed": mixed, "by_attention": by_attention, "by_state": state + state + state, "share": mixed / every}  # fmt: skip


def lesson_27():
    golden = GIVEN | {"decay": [DECAY], "beta": [BETA]} | within("plain", plain())
    golden |= within("sum", recurrence(lambda previous, key, value: ({}, previous + np.outer(key, value))))
    golden |= within("faded", recurrence(lambda previous, key, value: ({}, DECAY * previous + np.outer(key, value))))
    scores = masked(golden["plain.scores"])
    np.testing.assert_allclose(scores["output"], golden["sum.output"], rtol=1e-12)
    np.testing.assert_allclose(scores["fading"], golden["faded.output"], rtol=1e-12)
    golden |= within("masked", scores) | within("delta", recurrence(corrected))
    x, by_tokens, by_chunks = gated()
    golden |= {"x": x} | within("tokens", by_tokens) | within("chunks", by_chunks)
    drawn, recalled = recall()
    golden |= drawn | within("recall", recalled) | within("cost", cost())
    return {name: np.asarray(array) for name, array in golden.items()}
