"""Exercise 16: rotary positions and ALiBi.

Write the functions below. Check with

    script/exercise 16 --python
"""

import numpy as np


def my_turned_pair(pair, angle):
    """Pairs of features, each rotated by its angle: (x, y) becomes (x cos - y sin, x sin
    + y cos).

    pair (n, 2), angle (n) in radians -> (n, 2)
    """
    return np.zeros_like(pair)  # To do


def my_alibi_bias(query, key, slope):
    """What ALiBi adds to scores: -slope times the distance between query and key.

    query (n, 1) and key (m) hold positions from 0 and broadcast -> (n, m)
    """
    return np.zeros((len(query), len(key)))  # To do
