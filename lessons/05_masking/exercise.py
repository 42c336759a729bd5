"""Exercise 5: a causal mask and padding.

Write the function below. Check with

    script/exercise 5 --python
"""

import numpy as np


def my_masked_weights(scores, length):
    """The weights of one sequence. No query can attend to a later key, nor to padding.

    scores (n, n) after scaling; the first `length` tokens are real -> (n, n): each row
    sums to 1
    """
    # To do: build a mask (n, n), put minus infinity in place of the forbidden scores, and
    # apply softmax to each row.
    return np.zeros_like(scores)
