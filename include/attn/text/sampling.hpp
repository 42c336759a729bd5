#pragma once

#include "attn/ops/random.hpp"
#include "attn/tensor.hpp"

#include <cstddef>

namespace attn {

/// The most likely token; of equally likely ones the first.
/// @param logits  (vocabulary), at least one
/// @throws Error where one is NaN: nothing can be said to be likely
std::size_t argmax(const Vector& logits);

/// A token by chance, in the proportions softmax(logits / temperature).
/// @param logits       (vocabulary), at least one
/// @param temperature  from 0, where it is the most likely one; at 1 what the model says, above it bolder
/// @param numbers      the same seed draws the same tokens on every machine
/// @throws Error where a logit is NaN, or the temperature is below 0 or not finite
std::size_t sample(const Vector& logits, double temperature, RandomNumbers& numbers);

} // namespace attn
