"""Exercise 8, done: sinusoidal positions."""

import numpy as np


def my_sinusoid(position, feature, d):
    angle = position / 10000 ** (2 * (feature // 2) / d)
    return np.where(feature % 2 == 0, np.sin(angle), np.cos(angle))
