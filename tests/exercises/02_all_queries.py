"""Exercise 2, done: the attention of all queries, with tokens as rows and as columns."""

import numpy as np


def my_attention(queries, keys, values):
    scores = queries @ keys.T
    # Subtracting the largest score keeps exp from overflowing: see lesson 3.
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return weights @ values


def my_attention_in_columns(Q, K, V):
    return my_attention(Q.T, K.T, V.T).T
