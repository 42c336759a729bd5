"""Exercise 21, done: one step of an LSTM."""

import numpy as np


def my_lstm_step(
    x, hidden, cell, input_weights, input_bias, recurrent_weights, recurrent_bias
):
    def sigmoid(a):
        return 1 / (1 + np.exp(-a))

    from_token = x @ input_weights + input_bias
    from_state = hidden @ recurrent_weights + recurrent_bias
    parts = (from_token + from_state).reshape(4, -1)
    input_gate, forget_gate, candidate, output_gate = parts
    new_cell = sigmoid(forget_gate) * cell + sigmoid(input_gate) * np.tanh(candidate)
    return sigmoid(output_gate) * np.tanh(new_cell), new_cell
