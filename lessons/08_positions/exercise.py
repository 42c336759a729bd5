"""Exercise 8: sinusoidal positions.

Write the function below. Check with

    script/exercise 8 --python
"""

import numpy as np


def my_sinusoid(position, feature, d):
    """Numbers of a sinusoidal position embedding, sines and cosines interleaved.

    Feature i at position p is the sine (even i) or the cosine (odd i) of p / 10000^(2
    floor(i / 2) / d). position (n, 1) and feature (d) hold whole numbers from 0 and
    broadcast -> (n, d)
    """
    return np.zeros((len(position), len(feature)))  # To do
