"""Exercise 25: the mask of a window with sinks, beside a cache.

Write the function below. Check with

    script/exercise 25 --python
"""

import numpy as np


def my_window_mask(n, m, width, kept):
    """Which keys each query can attend to, in a causal window beside a cache, with the first
    `kept` tokens kept. The queries are the newest of the m tokens: query i is token m - n + i.

    n, m, width, kept -> (n, m), true where the query can attend to the key
    """
    return np.zeros((n, m), bool)  # To do
