"""Exercise 20: attention in a causal window, without a matrix (n, n).

Write the function below. Check with

    script/exercise 20 --python
"""

import numpy as np


def my_past_window(x, radius):
    """Attention of each token to itself and to the `radius` tokens before it, to no later
    token.

    x (n, d): queries, keys and values -> (n, d): for each token, the average of its
    window by softmax(x_i . x_j / sqrt(d))
    """
    context = np.zeros_like(x)
    for i in range(len(x)):
        pass  # To do: the tokens of the window are x[first : i + 1]; which is the first?
    return context
