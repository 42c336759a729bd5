"""Exercise 1, done: the attention of one query."""

import numpy as np


def my_scores(query, keys):
    return keys @ query


def my_weights(scores):
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum()


def my_output(weights, values):
    return weights @ values
