"""Exercise 21: one step of an LSTM.

Write the function below. Check with

    script/exercise 21 --python
"""

import numpy as np


def my_lstm_step(
    x, hidden, cell, input_weights, input_bias, recurrent_weights, recurrent_bias
):
    """The new hidden state and the new cell, in this order.

    With a = x W_x + b_x + hidden W_h + b_h, split into four parts of d_hidden numbers,
    a_i (input gate), a_f (forget gate), a_c (candidate) and a_o (output gate):

        new cell         = sigmoid(a_f) * cell + sigmoid(a_i) * tanh(a_c)
        new hidden state = sigmoid(a_o) * tanh(new cell)

    x (d_in), hidden and cell (d_hidden), W_x (d_in, 4 d_hidden), W_h (d_hidden, 4
    d_hidden), both biases (4 d_hidden)
    """
    # To do; sigmoid(a) is 1 / (1 + np.exp(-a))
    return np.zeros_like(hidden), np.zeros_like(cell)
