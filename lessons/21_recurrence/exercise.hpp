#pragma once

#include "attn/layers/recurrent/lstm.hpp"

/// One step of an LSTM.
/// @param x         (d_in)
/// @param previous  hidden and cell, (d_hidden) each
/// @param weights   (d_in, 4 d_hidden) and (d_hidden, 4 d_hidden), each with a bias; the columns of four gates side by
///                  side: input, forget, candidate, output
/// @return the new hidden and cell
attn::LstmStateOf<attn::Vector>
my_lstm_step(const attn::Vector& x, const attn::LstmStateOf<attn::Vector>& previous,
             const attn::RecurrentCellWeights& weights);
