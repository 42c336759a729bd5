"""Exercise 24, done: the absorbed score of one query and one key."""

import numpy as np


def my_absorbed_score(query, rotary_query, key_weights, latent, shared_key):
    absorbed = key_weights @ query  # once per query
    score = absorbed @ latent + rotary_query @ shared_key
    return score / np.sqrt(len(query) + len(rotary_query))
