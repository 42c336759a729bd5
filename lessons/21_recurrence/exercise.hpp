#pragma once

#include "attn/reference/layers/recurrent/lstm.hpp"

/// One step of an LSTM. With a = x W_x + b_x + hidden W_h + b_h, split into four parts of
/// d_hidden numbers, a_i (input gate), a_f (forget gate), a_c (candidate) and a_o (output
/// gate):
///
///     new cell         = sigmoid(a_f) * cell + sigmoid(a_i) * tanh(a_c)
///     new hidden state = sigmoid(a_o) * tanh(new cell)
///
/// @param x         (d_in)
/// @param previous  hidden and cell, (d_hidden) each
/// @param weights   input: W_x (d_in, 4 d_hidden) and b_x; recurrent: W_h
///                  (d_hidden, 4 d_hidden) and b_h
/// @return the new hidden state and cell
attn::LstmStateOf<attn::Vector>
my_lstm_step(const attn::Vector& x, const attn::LstmStateOf<attn::Vector>& previous,
             const attn::RecurrentCellWeights& weights);
