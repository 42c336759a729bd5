"""Exercise 15, done: the gradient of the loss."""

import numpy as np


def my_loss_gradient(logits, targets):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    gradient = exponentials / exponentials.sum(axis=-1, keepdims=True)
    counted = targets >= 0
    gradient[counted, targets[counted]] -= 1
    return gradient * counted[:, None] / counted.sum()
