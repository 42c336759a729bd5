#pragma once

#include "attn/tensor.hpp"

namespace attn {

/// Softmax along the last axis: exp(x_i) / sum_j exp(x_j), so that each row is positive and sums to one.
///
/// The row's largest score is subtracted first: the quotient stays the same and exp can't overflow. A row that is minus
/// infinity throughout, a query that can attend to nothing, becomes all zeros; PyTorch gives NaN there.
///
/// @param scores  (n, m), finite or minus infinity
/// @return (n, m)
Matrix softmax(const Matrix& scores);
/// The same in the storage of the scores, where they are no longer needed.
Matrix softmax(Matrix&& scores);

/// @copydoc softmax(const Matrix&)
Tensor3 softmax(const Tensor3& scores);
/// @copydoc softmax(const Matrix&)
Tensor4 softmax(const Tensor4& scores);

/// Softmax of one row.
/// @param scores  (m)
/// @return (m)
/// @see softmax(const Matrix&)
Vector softmax(const Vector& scores);

/// The Jacobian of softmax, the derivative of each weight by each score: J[i, j] = p_i ([i = j] - p_j).
/// @param weights  p, (m): the result of softmax
/// @return J, (m, m); symmetric, and each row sums to zero
Matrix softmax_jacobian(const Vector& weights);

} // namespace attn
