"""Exercise 30: the nucleus of the next token, and what comes in place of a rejected guess.

Write the functions below. Check with

    script/exercise 30 --python
"""

import numpy as np


def my_probabilities(logits, temperature, top_p):
    """The probabilities with which the next tokens are drawn, with a temperature and top-p.

    logits (n, vocabulary), each row by itself, temperature: divides the logits, top_p: as few
    of the most likely tokens are left as have so much probability together, after the
    temperature; of equal tokens the first counts as more likely
    -> (n, vocabulary), each row sums to 1
    """
    return np.zeros_like(logits)  # To do


def my_next(target, draft):
    """The probabilities of the token that comes in place of a rejected guess.

    target (vocabulary): the probabilities of the model, draft (vocabulary): those with which
    the guess was drawn
    -> (vocabulary), which sum to 1
    """
    return np.zeros_like(target)  # To do
