"""Exercise 23, done: repair weights that were masked after softmax."""

import numpy as np


def my_repaired_weights(weights):
    return weights / weights.sum(axis=-1, keepdims=True)
