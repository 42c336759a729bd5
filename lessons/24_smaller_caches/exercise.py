"""Exercise 24: the absorbed score of one query and one key.

Write the function below. Check with

    script/exercise 24 --python
"""

import numpy as np


def my_absorbed_score(query, rotary_query, key_weights, latent, shared_key):
    """The scaled score of latent attention, with the map to keys absorbed into the query:
    no key is made of the latent.

    query (d_n), rotary_query (d_r) after the rotation, key_weights (d_c, d_n): the head's
    map from a latent to a key, latent (d_c), shared_key (d_r) -> the score that a head
    with keys of d_n + d_r features gives
    """
    return 0.0  # To do
