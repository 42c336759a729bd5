"""The attention functions step by step, and the golden that has each of them on several sizes and masks."""

import numpy as np
import torch
from torch.nn import functional as F

from case import case, numbers


def softmax(x, axis=-1):
    return torch.softmax(torch.from_numpy(np.asarray(x, float)), dim=axis).numpy()


def expect(found, expected, tolerance=1e-12):
    """A published number, or PyTorch's own."""
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def weigh(scores, values, mask=None, normalized=True):
    """The steps after the scores."""
    scores = torch.from_numpy(np.asarray(scores, float))
    steps = {}
    if mask is not None:
        allowed = torch.from_numpy(mask)
        scores = scores.masked_fill(~allowed, -np.inf if normalized else 0.0)
        steps |= {"mask": mask, "masked": scores.numpy()}
    weights = torch.softmax(scores, dim=-1).nan_to_num(0.0) if normalized else scores  # PyTorch: NaN where nothing is allowed
    return steps | {"weights": weights.numpy(), "context": (weights @ torch.from_numpy(values)).numpy()}


def dot_product(queries, keys, values, mask=None, normalized=True):
    scores = np.einsum("nk,mk->nm", queries, keys)
    return {"scores": scores} | weigh(scores, values, mask, normalized)


def scaled_dot_product(queries, keys, values, mask=None, scale=None):
    scores = np.einsum("nk,mk->nm", queries, keys)
    scaled = scores / np.sqrt(keys.shape[1]) if scale is None else scores * scale
    steps = {"scores": scores, "scaled": scaled} | weigh(scaled, values, mask)
    if hasattr(F, "scaled_dot_product_attention") and scale is None and (mask is None or mask.any(axis=1).all()):
        tensors = [torch.from_numpy(x)[None] for x in (queries, keys, values)]
        allowed = None if mask is None else torch.from_numpy(mask)
        expect(steps["context"], F.scaled_dot_product_attention(*tensors, attn_mask=allowed)[0].numpy())
    return steps


def additive(queries, keys, values, query_weights, key_weights, score_weights, mask=None):
    """By PyTorch's linear layers, a pair at a time."""
    project = lambda x, weights: F.linear(torch.from_numpy(x), torch.from_numpy(weights).T)
    query_part, key_part = project(queries, query_weights), project(keys, key_weights)
    hidden = torch.stack([torch.stack([torch.tanh(q + k) for k in key_part]) for q in query_part])
    scores = F.linear(hidden, torch.from_numpy(score_weights)[None])[..., 0]
    steps = {"query_part": query_part, "key_part": key_part, "hidden": hidden, "scores": scores}
    return {name: tensor.numpy() for name, tensor in steps.items()} | weigh(scores.numpy(), values, mask)


def concatenated(queries, keys, values, hidden_weights, score_weights, mask=None):
    pairs = np.array([[np.concatenate([q, k]) for k in keys] for q in queries])
    hidden = np.tanh(np.einsum("nmp,ph->nmh", pairs, hidden_weights))
    scores = np.einsum("nmh,h->nm", hidden, score_weights)
    return {"pairs": pairs, "hidden": hidden, "scores": scores} | weigh(scores, values, mask)


def bilinear(queries, keys, values, bilinear_weights, mask=None):
    scores = F.bilinear(
        *(torch.from_numpy(np.ascontiguousarray(x)) for x in (np.repeat(queries, len(keys), axis=0), np.tile(keys, (len(queries), 1)))),
        torch.from_numpy(bilinear_weights)[None],
    ).numpy().reshape(len(queries), len(keys))  # fmt: skip
    return {"projected": queries @ bilinear_weights, "scores": scores} | weigh(scores, values, mask)


SCORES = {"dot_product": "dot", "scaled_dot_product": "scaled", "additive": "additive", "concatenated": "concatenated", "bilinear": "bilinear"}


def attention():
    """Each function on sizes that tell axes apart: n, m, d_q, d_k, d_v, with and without a mask."""
    golden = {}
    sizes = {"one": (1, 1, 1, 1), "few_queries": (2, 5, 3, 4), "one_key": (4, 1, 3, 2), "odd": (7, 5, 3, 11)}
    for size, (n, m, d_k, d_v) in sizes.items():
        queries, keys, values = numbers(n, d_k, seed=n), numbers(m, d_k, seed=10 + m), numbers(m, d_v, seed=20 + d_v)
        wide = numbers(n, d_k + 2, seed=30 + n)
        causal = np.tril(np.ones((n, m), bool), m - n)  # bottom-right: the last query sees every key
        padding = np.broadcast_to(np.arange(m) < max(1, m - 2), (n, m)).copy()
        starved = padding.copy()
        starved[0] = False
        for name, mask in {"all": None, "causal": causal, "padding": padding, "starved": starved}.items():
            h = 3
            learned = {"query_weights": numbers(d_k + 2, h, seed=41), "key_weights": numbers(d_k, h, seed=42), "score_weights": numbers(h, seed=43)}
            stacked = {"hidden_weights": np.concatenate([learned["query_weights"], learned["key_weights"]]), "score_weights": learned["score_weights"]}
            middle = {"bilinear_weights": numbers(d_k + 2, d_k, seed=44)}
            functions = {
                "dot_product": (queries, {}, dot_product),
                "scaled_dot_product": (queries, {}, scaled_dot_product),
                "additive": (wide, learned, additive),
                "concatenated": (wide, stacked, concatenated),
                "bilinear": (wide, middle, bilinear),
            }
            for function, (asking, weights, compute) in functions.items():
                given = {"queries": asking, "keys": keys, "values": values} | ({} if mask is None else {"mask": mask})
                steps = given | weights | compute(asking, keys, values, **weights, mask=mask)
                run = f"attention --score {SCORES[function]}"
                golden |= case(f"{function}.{size}.{name}", run, given, steps, weights, result="context")
    return golden
