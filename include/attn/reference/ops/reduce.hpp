#pragma once

#include "attn/core/tensor.hpp"

#include <cstddef>

namespace attn {

/// @name Reducers: sums, means and maxima
///
/// Each returns a container, never an expression: `x - xt::amax(x, {1},
/// xt::keep_dims)` reads out of bounds and is silently wrong (see docs/xtensor_pitfalls.md). Their names are none of
/// xtensor's, so that argument-dependent lookup can't pick `xt::sum` where `attn::sum` was meant.
/// @{

/// The sum of all numbers; 0 of none.
double sum_all(const Vector& vector);
/// @copydoc sum_all(const Vector&)
double sum_all(const Matrix& matrix);
ATTN_REFUSE_OTHER_TENSORS(sum_all);
/// The sums along an axis, which is removed: along axis 1, (n, m) becomes (n).
Vector sum_along(const Matrix& matrix, std::size_t axis);

/// The mean of all numbers; NaN of none.
double mean_all(const Vector& vector);
/// @copydoc mean_all(const Vector&)
double mean_all(const Matrix& matrix);
ATTN_REFUSE_OTHER_TENSORS(mean_all);

/// The sum of each token's features, ((b,) n, d) to ((b,) n), or of each group of features, (b, n, g, d) to (b, n, g).
Vector sum_of_features(const Matrix& tokens);
/// @copydoc sum_of_features(const Matrix&)
Matrix sum_of_features(const Tensor3& batch);
/// @copydoc sum_of_features(const Matrix&)
Tensor3 sum_of_features(const Tensor4& groups);
ATTN_REFUSE_OTHER_TENSORS(sum_of_features);

/// The means along an axis, which is removed: along axis 1, (n, m) becomes (n); NaN of none.
Vector mean_along(const Matrix& matrix, std::size_t axis);

/// The mean of each token's features, ((b,) n, d) to ((b,) n); NaN of none.
Vector mean_of_features(const Matrix& tokens);
/// @copydoc mean_of_features(const Matrix&)
Matrix mean_of_features(const Tensor3& batch);
ATTN_REFUSE_OTHER_TENSORS(mean_of_features);

/// The mean of the squared distances from the mean (divided by the count, not by one less); NaN of none.
double variance_all(const Matrix& matrix);

/// The largest number; minus infinity of none, NaN where there is one.
double max_all(const Vector& vector);
/// @copydoc max_all(const Vector&)
double max_all(const Matrix& matrix);
ATTN_REFUSE_OTHER_TENSORS(max_all);
/// The largest along an axis, which is removed: along axis 1, (n, m) becomes (n).
Vector max_along(const Matrix& matrix, std::size_t axis);

/// @}

} // namespace attn
