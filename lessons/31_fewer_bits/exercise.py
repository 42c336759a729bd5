"""Exercise 31: keys in fewer bits, with a scale for each channel.

Write the function below. Check with

    script/exercise 31 --python
"""

import numpy as np


def my_stored_keys(keys, largest_code):
    """Keys as a cache reads them back that keeps them as whole numbers with a sign and one
    scale for each channel: the scale makes the largest number of the channel, by its size,
    the largest code.

    keys (m, d_k), largest_code: 127 for int8, 7 for int4 -> (m, d_k), the rounded keys
    """
    return np.zeros_like(keys)  # To do
