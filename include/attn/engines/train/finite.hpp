#pragma once

#include "attn/engines/train/adam.hpp"

#include <cstdint>

/// @file
/// A training whose numbers have overflowed has nothing more to learn, and nothing of it is worth saving.

namespace attn::train {

/// @param steps  how many were taken before the loss was computed
/// @return the loss
/// @throws Error where it is infinite or NaN
double finite_loss(double loss, std::uint64_t steps);

/// @throws Error where a weight or one of Adam's means is infinite or NaN
template <class Number>
void expect_finite(const BasicAdamState<Number>& state);

} // namespace attn::train
