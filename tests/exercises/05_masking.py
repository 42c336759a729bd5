"""Exercise 5, done: a causal mask and padding."""

import numpy as np


def my_masked_weights(scores, length):
    n = len(scores)
    mask = np.tri(n, dtype=bool) & (np.arange(n) < length)
    exponentials = np.exp(np.where(mask, scores, -np.inf))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)
