"""Exercise 5, done: a causal mask and padding."""

import numpy as np


def my_masked_weights(scores, length):
    n = len(scores)
    mask = np.tri(n, dtype=bool) & (np.arange(n) < length)
    masked = np.where(mask, scores, -np.inf)
    largest = masked.max(axis=-1, keepdims=True)
    # A row in which every key is masked has no finite score: its weights are zeros.
    exponentials = np.exp(masked - np.where(np.isfinite(largest), largest, 0))
    sums = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / np.where(sums > 0, sums, 1)
