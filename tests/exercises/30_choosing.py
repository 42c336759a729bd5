"""Exercise 30, done: the nucleus, and what comes in place of a rejected guess."""

import numpy as np


def my_probabilities(logits, temperature, top_p):
    exponentials = np.exp((logits - logits.max(axis=1, keepdims=True)) / temperature)
    chances = exponentials / exponentials.sum(axis=1, keepdims=True)
    # Is the second of two more likely than the first, or the earlier one of two alike?
    first, second = chances[:, :, None], chances[:, None, :]
    place = np.arange(chances.shape[1])
    comes_before = (second > first) | ((second == first) & (place < place[:, None]))
    before = np.sum(np.where(comes_before, second, 0), axis=2)
    kept = np.where(before < top_p, chances, 0)
    return kept / kept.sum(axis=1, keepdims=True)


def my_next(target, draft):
    excess = np.maximum(target - draft, 0)
    return excess / excess.sum()
