"""Exercise 31, done: keys in fewer bits, with a scale for each channel."""

import numpy as np


def my_stored_keys(keys, largest_code):
    scale = np.abs(keys).max(axis=0, keepdims=True) / largest_code
    return np.round(keys / scale) * scale
