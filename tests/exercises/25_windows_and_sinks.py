"""Exercise 25, done: the mask of a window with sinks, beside a cache."""

import numpy as np


def my_window_mask(n, m, width, kept):
    own, key = np.arange(n)[:, None] + m - n, np.arange(m)
    return (key <= own) & ((key > own - width) | (key < kept))
