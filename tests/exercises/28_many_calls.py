"""Exercise 28, done: one call of many."""

import numpy as np


def my_call(queries, new_keys, new_values, positions, past_keys, past_values,
            past_positions, width):
    keys = np.concatenate([past_keys, new_keys], axis=0)
    values = np.concatenate([past_values, new_values], axis=0)
    places = np.concatenate([past_positions, positions], axis=0)
    own = positions[:, None]
    seen = (places <= own) & (places > own - width)
    scores = np.where(seen, queries @ keys.T / np.sqrt(queries.shape[1]), -np.inf)
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True) @ values
