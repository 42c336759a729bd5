"""Exercise 17, done: attention with a key/value cache."""

import numpy as np


def my_cached_attention(query, key, value, past_keys, past_values):
    keys = np.concatenate([past_keys, key], axis=0)
    values = np.concatenate([past_values, value], axis=0)
    exponentials = np.exp(query @ keys.T / np.sqrt(keys.shape[1]))
    return exponentials / exponentials.sum() @ values, keys, values


def my_numbers_per_token(layers, key_value_heads, d_k):
    return layers * 2 * key_value_heads * d_k
