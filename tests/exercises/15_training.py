"""Exercise 15, done: the gradient of the loss."""

import numpy as np


def my_loss_gradient(logits, targets):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities = exponentials / exponentials.sum(axis=-1, keepdims=True)
    is_target = targets[:, None] == np.arange(logits.shape[1])
    counted = targets >= 0
    return (probabilities - is_target) * counted[:, None] / counted.sum()
