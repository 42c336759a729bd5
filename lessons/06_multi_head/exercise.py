"""Exercise 6: merge the heads.

Write the function below. Check with

    script/exercise 6 --python
"""

import numpy as np


def my_merged_heads(contexts):
    """The contexts of all heads, side by side for each token.

    contexts (h, n, d_v) -> (n, h d_v): a row has the d_v numbers of head 0, then those of
    head 1, and so on
    """
    heads, tokens, d_v = contexts.shape
    return np.zeros((tokens, heads * d_v))  # To do. Is a reshape enough?
