#pragma once

#include "attn/core/tensor.hpp"

namespace attn {

/// Matrix product, as NumPy's `left @ right`.
/// @param left   (n, k)
/// @param right  (k, m)
/// @return (n, m)
/// @throws ShapeError where they disagree in k
Matrix matmul(const Matrix& left, const Matrix& right);

/// Matrix times vector: one dot product per row.
/// @param left   (n, k)
/// @param right  (k)
/// @return (n)
/// @throws ShapeError where they disagree in k
Vector matmul(const Matrix& left, const Vector& right);

/// Vector times matrix: the sum of the rows, each multiplied by its number of the vector.
/// @param left   (k)
/// @param right  (k, m)
/// @return (m)
/// @throws ShapeError where they disagree in k
Vector matmul(const Vector& left, const Matrix& right);

/// A matrix times a vector for each of several matrices.
/// @param left   (b, n, k)
/// @param right  (k)
/// @return (b, n)
/// @throws ShapeError where they disagree in k
Matrix matmul(const Tensor3& left, const Vector& right);

/// Matrix products, pair by pair.
/// @param left   (b, n, k)
/// @param right  (b, k, m)
/// @return (b, n, m)
/// @throws ShapeError where they disagree in b or k
Tensor3 matmul(const Tensor3& left, const Tensor3& right);

/// Matrix products, pair by pair, of the heads of a batch.
/// @param left   (b, h, n, k)
/// @param right  (b, h, k, m)
/// @return (b, h, n, m)
/// @throws ShapeError where they disagree in b, h or k
Tensor4 matmul(const Tensor4& left, const Tensor4& right);

/// Each of several matrices times the same matrix, such as one map for all sequences of a batch.
/// @param left   (b, n, k)
/// @param right  (k, m)
/// @return (b, n, m)
/// @throws ShapeError where they disagree in k
Tensor3 matmul(const Tensor3& left, const Matrix& right);
ATTN_REFUSE_OTHER_TENSORS(matmul);

/// Dot product: the sum of the products of entry with entry.
/// @param left   (k)
/// @param right  (k)
/// @throws ShapeError where they disagree in k
double dot(const Vector& left, const Vector& right);

/// Outer product: all products of a number of the one and a number of the other.
/// @param left   (n)
/// @param right  (m)
/// @return (n, m)
Matrix outer(const Vector& left, const Vector& right);

/// Rows become columns, in storage of their own.
/// @param matrix  (n, m)
/// @return (m, n)
Matrix transpose(const Matrix& matrix);

/// Rows become columns in each of several matrices.
/// @param matrices  (b, n, m)
/// @return (b, m, n)
Tensor3 transpose(const Tensor3& matrices);
/// The same for the heads of a batch.
/// @param matrices  (b, h, n, m)
/// @return (b, h, m, n)
Tensor4 transpose(const Tensor4& matrices);

/// @name The same for arguments that are not const
/// Without these, argument-dependent lookup would prefer xt::transpose, a view, which fits no function of attn.
/// @{
inline Matrix transpose(Matrix& matrix) { return transpose(static_cast<const Matrix&>(matrix)); }
inline Matrix transpose(Matrix&& matrix) { return transpose(static_cast<const Matrix&>(matrix)); }
inline Tensor3 transpose(Tensor3& matrices) { return transpose(static_cast<const Tensor3&>(matrices)); }
inline Tensor3 transpose(Tensor3&& matrices) { return transpose(static_cast<const Tensor3&>(matrices)); }
inline Tensor4 transpose(Tensor4& matrices) { return transpose(static_cast<const Tensor4&>(matrices)); }
inline Tensor4 transpose(Tensor4&& matrices) { return transpose(static_cast<const Tensor4&>(matrices)); }
/// @}
ATTN_REFUSE_OTHER_TENSORS(transpose);

} // namespace attn
