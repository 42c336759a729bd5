"""Exercise 14: the gradients at the scores and at the keys.

Write the functions below. Check with

    script/exercise 14 --python
"""

import numpy as np


def my_score_gradient(weights, arriving):
    """The gradient at softmax's input: weights = softmax(scaled), row by row.

    weights (n, m), the gradient that arrives at them (n, m) -> (n, m)
    """
    # To do. One score changes every weight of its row: which number of the row is
    # subtracted from what arrives, before the product with the weight?
    return np.zeros_like(weights)


def my_key_gradient(arriving, queries):
    """The gradient at the keys: scaled = queries @ keys.T / sqrt(d_k).

    the gradient that arrives at scaled (n, m), queries (n, d_k) -> (m, d_k)
    """
    # To do. Key j is used by every query i, with the factor 1 / sqrt(d_k).
    return np.zeros((arriving.shape[1], queries.shape[1]))
