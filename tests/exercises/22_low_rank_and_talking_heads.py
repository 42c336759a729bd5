"""Exercise 22, done: mix the scores of several heads."""

import numpy as np


def my_mixed_heads(scores, mixture):
    return np.einsum("knm,kh->hnm", scores, mixture)
