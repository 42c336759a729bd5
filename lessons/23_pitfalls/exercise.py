"""Exercise 23: repair weights that were masked after softmax, without the scores.

Write the function below. Check with

    script/exercise 23 --python
"""

import numpy as np


def my_repaired_weights(weights):
    """Repairs the weights of a program that applied its causal mask after softmax instead
    of before.

    weights (n, n): softmax of all scores, then zeros in place of later keys -> (n, n):
    what a mask before softmax gives
    """
    # To do: the weights of a row have the right proportions to each other. What is wrong
    # with their sum?
    return np.zeros_like(weights)
