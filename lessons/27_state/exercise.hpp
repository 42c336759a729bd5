#pragma once

#include "attn/core/tensor.hpp"

/// One step of the gated delta rule: the state fades, and is corrected for one key.
/// @param previous_state  (d_k, d_v): maps keys to values
/// @param key             (d_k), of length 1
/// @param value           (d_v): what is to be found under that key from now on
/// @param beta            how much of the difference is written, 0 to 1
/// @param decay           what the state is multiplied by before, 0 to 1
/// @return (d_k, d_v): the new state
attn::Matrix my_delta_step(const attn::Matrix& previous_state, const attn::Vector& key,
                           const attn::Vector& value, double beta, double decay);
