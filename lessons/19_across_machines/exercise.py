"""Exercise 19: count the scores that each rank of a ring computes at one hop.

Write the function below. Check with

    script/exercise 19 --python
"""

import numpy as np


def my_scores(rank_of, ranks, hop):
    """Counts the pairs of a query of each rank and a key that it has at this hop, where
    the key stands at the query's place or before it.

    rank_of (n): the rank that holds each token; at hop 0 a rank has its own keys, after
    each hop they go on to the next rank, from the last one to rank 0 -> (ranks)
    """
    # To do. Whose keys has rank r at this hop? Then look at each query of rank r and each
    # of these keys: a token's place is its index.
    return np.zeros(ranks, int)
