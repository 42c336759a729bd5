#pragma once

#include "attn/tensor.hpp"

namespace attn {

/// One vector after the other.
/// @return (n + m)
Vector concat(const Vector& first, const Vector& second);

/// One matrix on top of the other.
/// @param first   (n, d)
/// @param second  (m, d)
/// @return (n + m, d)
/// @throws ShapeError where they disagree in d
Matrix concat_rows(const Matrix& first, const Matrix& second);

} // namespace attn
