#pragma once

#include "attn/core/tensor.hpp"
#include "attn/reference/ops/random.hpp"

#include <cstddef>

namespace attn {

/// The most likely token: the index of the largest logit, the first of equally large ones.
/// @param logits  (vocabulary), at least one
/// @throws Error where a logit is NaN
std::size_t argmax(const Vector& logits);

/// A random token, with the probabilities softmax(logits / temperature).
/// @param logits       (vocabulary), at least one
/// @param temperature  0 always gives the most likely token, 1 the model's own probabilities, more makes them more equal
/// @param numbers      the same seed draws the same tokens on every machine
/// @throws Error where a logit is NaN, or the temperature is below 0 or not finite
std::size_t sample(const Vector& logits, double temperature, RandomNumbers& numbers);

} // namespace attn
