#pragma once

#include "attn/core/tensor.hpp"

namespace attn {

/// Softmax along the last axis: exp(x_i) / sum_j exp(x_j), so that each row is positive and sums to one.
///
/// The row's largest score is subtracted first: the quotient stays the same and exp can't overflow. A row that is minus
/// infinity throughout, a query that can attend to nothing, becomes all zeros; PyTorch gives NaN there.
///
/// @param scores  (m), or rows of m: finite or minus infinity. Where they are moved in, the result takes their storage.
/// @return as the scores
Vector softmax(Vector scores);
/// @copydoc softmax(Vector)
Matrix softmax(Matrix scores);
/// @copydoc softmax(Vector)
Tensor3 softmax(Tensor3 scores);
/// @copydoc softmax(Vector)
Tensor4 softmax(Tensor4 scores);
ATTN_REFUSE_OTHER_TENSORS(softmax);

/// The Jacobian of softmax, the derivative of each weight by each score: J[i, j] = p_i ([i = j] - p_j).
/// @param weights  p, (m): the result of softmax
/// @return J, (m, m); symmetric, and each row sums to zero
Matrix softmax_jacobian(const Vector& weights);

} // namespace attn
