"""Exercise 3, done: a softmax that cannot overflow, and the right divisor."""

import numpy as np


def my_softmax(scores):
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum()


def my_divisor(d_k, variance):
    return np.sqrt(d_k * variance**2)
