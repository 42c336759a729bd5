"""Exercise 7: cross-attention.

Write the function below. Check with

    script/exercise 7 --python
"""

import numpy as np


def my_aligned_question(passage, question):
    """The aligned question embedding: softmax(passage question^T / sqrt(d)) question.

    passage (n, d): the queries; question (m, d): the keys and the values -> (n, d)
    """
    return np.zeros((passage.shape[0], question.shape[1]))  # To do
