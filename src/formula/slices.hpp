#pragma once

#include "attn/core/array.hpp"
#include "attn/formula/expression.hpp"

#include <cstddef>
#include <vector>

/// Gradients of what was cut into slices: side by side they are the gradient of the whole.
namespace attn::formula {

/// What one user of a step adds to its gradient.
struct Contribution {
    std::size_t user; ///< number of a step
    Expression formula;
};

/// A contribution that is zero outside of a slice of one axis: pad(part, begin, …, axis=axis).
struct Slice {
    std::size_t user;
    Expression part;
    std::size_t axis, begin, end;
};

/// The slices in the order of their axis, where every contribution is one and each entry of the axis is in exactly one;
/// else none.
/// @param whole  shape of the step
std::vector<Slice> side_by_side(const std::vector<Contribution>& contributions, const Shape& whole);

} // namespace attn::formula
