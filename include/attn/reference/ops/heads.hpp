#pragma once

#include "attn/core/tensor.hpp"

#include <cstddef>

namespace attn {

/// @name The heads of a batch: (b, h, n, d), or packed side by side, (b, n, h d)
/// @{

/// Each head's features of packed tokens; a single sequence is a batch of one.
///
/// NumPy's `permute(reshape(packed, b, n, h, d), 0, 2, 1, 3)`.
/// @param packed  ((b,) n, h d)
/// @return (b, h, n, d)
/// @throws ShapeError where the features can't be divided evenly among the heads
Tensor4 unpack_heads(const Matrix& packed, std::size_t heads);
/// @copydoc unpack_heads(const Matrix&, std::size_t)
Tensor4 unpack_heads(const Tensor3& packed, std::size_t heads);
ATTN_REFUSE_OTHER_TENSORS(unpack_heads);

/// The inverse of unpack_heads().
/// @param heads  (b, h, n, d)
/// @return (b, n, h d)
Tensor3 pack_heads(const Tensor4& heads);

/// Each head repeated so many times, one after the other: h/g consecutive query heads share a key/value head.
/// @param heads  (b, g, m, d)
/// @return (b, g times, m, d)
Tensor4 repeat_heads(const Tensor4& heads, std::size_t times);

/// The heads of a batch as a longer batch.
/// @param heads  (b, h, n, d)
/// @return (b h, n, d)
Tensor3 as_batch(const Tensor4& heads);

/// The inverse of the above.
/// @param batch  (b h, n, d)
/// @return (b, h, n, d)
/// @throws ShapeError where there are not b h sequences
Tensor4 as_heads(const Tensor3& batch, std::size_t sequences, std::size_t heads);

/// @}

} // namespace attn
