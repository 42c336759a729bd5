#pragma once

#include "attn/core/tensor.hpp"

#include <cstddef>

namespace attn {

/// Which numbers are among the k largest of their row: the last axis.
///
/// Of equal numbers the first is taken, and NaN counts as larger than all; of each row exactly k are true.
///
/// @param scores  rows of m
/// @param k       from 1 to m
/// @return as the scores, true at the k largest
/// @throws ShapeError where k is 0 or greater than m
Mask top_k(const Matrix& scores, std::size_t k);
/// @copydoc top_k(const Matrix&, std::size_t)
BatchMask top_k(const Tensor3& scores, std::size_t k);
/// @copydoc top_k(const Matrix&, std::size_t)
HeadMask top_k(const Tensor4& scores, std::size_t k);
ATTN_REFUSE_OTHER_TENSORS(top_k);

} // namespace attn
