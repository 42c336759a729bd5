"""Exercise 3, done: a softmax that cannot overflow, and the right divisor."""

import numpy as np


def my_softmax(scores):
    largest = scores.max()
    if np.isinf(largest):
        return np.zeros_like(scores)
    exponentials = np.exp(scores - largest)
    return exponentials / exponentials.sum()


def my_divisor(d_k, variance):
    return np.sqrt(d_k * variance**2)
