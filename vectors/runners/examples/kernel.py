"""A kernel in tiles, checked: python3 check.py ../kernels kernel:attention_kernel float32, in this folder's parent with PYTHONPATH=examples."""
import math

import numpy as np

TILE = 64

def attention_kernel(queries, keys, values, layout, causal=None):  # (b, h, n, d), (b, g, m, d), (b, g, m, e)
    if layout != "bhnd":
        raise NotImplementedError(layout)
    (b, h, n, d), (m, e), group = queries.shape, values.shape[2:], queries.shape[1] // keys.shape[1]
    output = np.zeros((b, h, n, e), queries.dtype)
    for i, head in np.ndindex(b, h):
        k, v = keys[i, head // group], values[i, head // group]
        top, total, sums = np.full((n, 1), -math.inf), np.zeros((n, 1)), np.zeros((n, e))
        for begin in range(0, m, TILE):
            scores = queries[i, head] @ k[begin:begin + TILE].T / math.sqrt(d)
            if causal:  # the corner at the bottom right
                scores = np.where(np.arange(begin, min(begin + TILE, m)) <= np.arange(n)[:, None] + m - n, scores, -math.inf)
            new = np.maximum(top, scores.max(-1, keepdims=True))
            safe = np.where(np.isfinite(new), new, 0)  # a query that has seen no key
            factor, weights = np.exp(top - safe), np.exp(scores - safe)
            total, sums, top = total * factor + weights.sum(-1, keepdims=True), sums * factor + weights @ v[begin:begin + TILE], new
        output[i, head] = np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)
    return output
