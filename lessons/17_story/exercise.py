"""Exercise 17: attention with a key/value cache.

Write the functions below. Check with

    script/exercise 17 --python
"""

import numpy as np


def my_cached_attention(query, key, value, past_keys, past_values):
    """Attention of one head with a cache: a new token attends to itself and all earlier
    tokens.

    query (1, d_k), key (1, d_k), value (1, d_v): of the new token; past_keys (m, d_k),
    past_values (m, d_v): of the earlier tokens -> three arrays: the context (1, d_v) by
    scaled dot-product attention; all keys (m + 1, d_k); all values (m + 1, d_v)
    """
    return np.zeros_like(value), past_keys, past_values  # To do. Is a mask needed?


def my_numbers_per_token(layers, key_value_heads, d_k):
    """How many numbers the caches of all layers keep per token: each key/value head keeps
    one key and one value of d_k numbers.
    """
    return 0  # To do
