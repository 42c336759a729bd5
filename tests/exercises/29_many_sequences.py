"""Exercise 29, done: positions in a padded batch, and attention through pages."""

import numpy as np


def my_positions(real):
    place = np.arange(real.shape[1])
    words_so_far = (1 * real) @ (1 * (place[:, None] <= place))
    return np.maximum(words_so_far - 1, 0)


def my_paged_context(query, keys, values, table, tokens, size):
    place = np.arange(tokens)
    slots = size * table[place // size] + place % size
    scores = keys[slots] @ query / np.sqrt(len(query))
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum() @ values[slots]
