"""Exercise 4: two scores of one pair.

Write the functions below. Check with

    script/exercise 4 --python
"""

import numpy as np


def my_additive_score(query, key, query_weights, key_weights, score_weights):
    """The additive score of one pair: w_v . tanh(q W_q + k W_k).

    query (d_q), key (d_k), W_q (d_q, d_hidden), W_k (d_k, d_hidden), w_v (d_hidden) -> a
    number
    """
    return 0.0  # To do


def my_bilinear_score(query, key, bilinear):
    """The bilinear score of one pair: q . W k.

    query (d_q), key (d_k), W (d_q, d_k) -> a number
    """
    return 0.0  # To do
