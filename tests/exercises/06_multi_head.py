"""Exercise 6, done: merge the heads."""

import numpy as np


def my_merged_heads(contexts):
    heads, tokens, d_v = contexts.shape
    return contexts.transpose(1, 0, 2).reshape(tokens, heads * d_v)
