"""Exercise 19, done: count the scores that each rank of a ring computes at one hop."""

import numpy as np


def my_scores(rank_of, ranks, hop):
    places = np.arange(len(rank_of))
    scores = []
    for rank in range(ranks):
        queries, keys = places[rank_of == rank], places[rank_of == (rank - hop) % ranks]
        scores.append(np.sum(keys <= queries[:, None]))
    return np.array(scores, int)
