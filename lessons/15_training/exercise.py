"""Exercise 15: where training begins, the gradient of the loss.

Write the function below. Check with

    script/exercise 15 --python
"""

import numpy as np


def my_loss_gradient(logits, targets):
    """The gradient of cross-entropy with respect to the logits. The loss is the mean,
    over all tokens whose target is not negative, of -log softmax(logits)[target].

    logits (n, vocabulary), targets (n,): the class of each token; negative for a token
    that is ignored -> (n, vocabulary)
    """
    return np.zeros_like(logits)  # To do
