"""Exercise 29: positions in a padded batch, and attention through a table of pages.

Write the functions below. Check with

    script/exercise 29 --python
"""

import numpy as np


def my_positions(real):
    """At which position of its own sequence each word of a padded batch stands, whichever side the padding is on.

    real (b, n): true where there is a word, false at padding
    -> (b, n): 0 for the first word of a row, 1 for the second; 0 at padding before them. Padding after them has
    the position of the last word.
    """
    return np.zeros(real.shape)  # To do


def my_paged_context(query, keys, values, table, tokens, size):
    """A query attends to the tokens of its sequence, whose keys and values are in pages.

    query (d_k), keys (slots, d_k), values (slots, d_v): a pool of blocks of `size` rows each, also those of others;
    table: the blocks of the sequence in the order of its tokens; tokens: how many it has
    -> (d_v), the context, with scores that are divided by the root of d_k
    """
    return np.zeros(values.shape[1])  # To do
