"""Exercise 20, done: attention in a causal window, without a matrix (n, n)."""

import numpy as np


def my_past_window(x, radius):
    context = np.zeros_like(x)
    for i in range(len(x)):
        window = x[max(0, i - radius) : i + 1]
        exponentials = np.exp(window @ x[i] / np.sqrt(x.shape[1]))
        context[i] = exponentials / exponentials.sum() @ window
    return context
