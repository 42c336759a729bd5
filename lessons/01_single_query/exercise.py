"""Exercise 1: the attention of one query.

Write the functions below. Check with

    script/exercise 1 --python
"""

import numpy as np


def my_scores(query, keys):
    """One score per key: scores[j] is the sum of query[i] * keys[j, i] over all i.

    query (d_k), keys (m, d_k) -> (m)
    """
    return np.zeros(keys.shape[0])  # To do


def my_weights(scores):
    """Softmax: exp of each score, divided by the sum of all these exponentials.

    scores (m) -> (m)
    """
    return np.zeros_like(scores)  # To do


def my_output(weights, values):
    """The average of the values by their weights: the sum of weights[j] * values[j] over
    all j.

    weights (m), values (m, d_v) -> (d_v)
    """
    return np.zeros(values.shape[1])  # To do
