"""Exercise 26: from a router's logits to the mixed output.

Write the function below. Check with

    script/exercise 26 --python
"""

import numpy as np


def my_mixture(router_logits, expert_outputs, shared_output, top, is_normalized):
    """What a mixture of experts makes of one token.

    router_logits (experts), expert_outputs (experts, d_model), shared_output (d_model), top:
    how many experts are chosen, is_normalized: whether their scores are divided by their sum
    -> (d_model): the chosen experts' outputs, weighted, and the shared expert's
    """
    return np.zeros_like(shared_output)  # To do
