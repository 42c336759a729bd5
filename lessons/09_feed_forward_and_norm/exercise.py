"""Exercise 9: layer norm.

Write the function below. Check with

    script/exercise 9 --python
"""

import numpy as np


def my_normalized(x, epsilon):
    """Each token normalised over its features to mean 0 and variance 1: (x - mean) /
    sqrt(variance + epsilon).

    The variance is the mean of the squared distances from the mean. x (n, d) -> (n, d)
    """
    return np.zeros_like(x)  # To do. Along which axis is the mean?
