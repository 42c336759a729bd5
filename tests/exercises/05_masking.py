"""Exercise 5, done: a causal mask and padding."""

import numpy as np


def my_masked_weights(scores, length):
    query, key = np.arange(len(scores))[:, None], np.arange(len(scores))
    masked = np.where((key <= query) & (key < length), scores, -np.inf)
    exponentials = np.exp(masked - masked.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)
