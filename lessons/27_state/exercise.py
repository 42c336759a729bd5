"""Exercise 27: one step of the gated delta rule.

Write the function below. Check with

    script/exercise 27 --python
"""

import numpy as np


def my_delta_step(previous_state, key, value, beta, decay):
    """The state fades, and is corrected for one key.

    previous_state (d_k, d_v), key (d_k) of length 1, value (d_v), beta: how much of the
    difference is written, decay: what the state is multiplied by before
    -> (d_k, d_v), the new state
    """
    return np.zeros_like(previous_state)  # To do
