#pragma once

#include "attn/core/tensor.hpp"

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace attn {

/// @name Put together, take apart
/// @{

/// One vector after the other.
/// @return (n + m)
Vector concat(const Vector& first, const Vector& second);
/// @copydoc concat(const Vector&, const Vector&)
Integers concat(const Integers& first, const Integers& second);
ATTN_REFUSE_OTHER_TENSORS(concat);

/// One matrix on top of the other.
/// @param first   (n, d)
/// @param second  (m, d)
/// @return (n + m, d)
/// @throws ShapeError where they disagree in d
Matrix concat_rows(const Matrix& first, const Matrix& second);

/// Tokens after the tokens of the same sequence, and of the same head: NumPy's `concat(first, second, axis=-2)`.
/// @param first   (b, n, d)
/// @param second  (b, m, d)
/// @return (b, n + m, d)
/// @throws ShapeError where they disagree in b or d
Tensor3 concat_rows(const Tensor3& first, const Tensor3& second);
/// The same for the heads of a batch.
/// @param first   (b, h, n, d)
/// @param second  (b, h, m, d)
/// @return (b, h, n + m, d)
/// @throws ShapeError where they disagree in b, h or d
Tensor4 concat_rows(const Tensor4& first, const Tensor4& second);
ATTN_REFUSE_OTHER_TENSORS(concat_rows);

/// Side by side: each token's features of one part after the other.
/// @param parts  at least one, each ((b,) n, d_i), or of the heads of a batch (b, h, n, d_i)
/// @return ((b,) n, sum of d_i), or (b, h, n, sum of d_i)
/// @throws ShapeError where they disagree in b, h or n
template <Attending T>
T concat_columns(const std::vector<T>& parts);
/// The same for parts that are listed: `concat_columns({first, second})`.
template <Attending T>
T concat_columns(std::initializer_list<T> parts)
{
    return concat_columns(std::vector<T>(parts));
}

/// Each token's features from begin up to, not including, end.
/// @param x  (n, d)
/// @return (n, end - begin)
/// @throws ShapeError where x has fewer features
Matrix columns(const Matrix& x, std::size_t begin, std::size_t end);
/// The same for a batch, (b, n, d).
Tensor3 columns(const Tensor3& x, std::size_t begin, std::size_t end);
/// The same for the heads of a batch, (b, h, n, d).
Tensor4 columns(const Tensor4& x, std::size_t begin, std::size_t end);
ATTN_REFUSE_OTHER_TENSORS(columns);

/// Rows of a table by their numbers, NumPy's table[ids]: tokens in another order, or the embeddings of words.
/// @param table  (n, d)
/// @param ids    (m), from 0 to n - 1
/// @return (m, d)
/// @throws ShapeError where an id is no row of the table
Matrix take_rows(const Matrix& table, const Integers& ids);
/// The same for a batch of ids, (b, m): (b, m, d).
template <std::same_as<IntegerMatrix> Batch> // and nothing that converts to it
Tensor3 take_rows(const Matrix& table, const Batch& ids);

/// @}

} // namespace attn
