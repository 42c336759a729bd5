"""Exercise 7, done: cross-attention."""

import numpy as np


def my_aligned_question(passage, question):
    exponentials = np.exp(passage @ question.T / np.sqrt(question.shape[1]))
    return exponentials / exponentials.sum(axis=-1, keepdims=True) @ question
