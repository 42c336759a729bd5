#pragma once

#include "attn/core/tensor.hpp"
#include "attn/reference/ops/heads.hpp"

#include <cstddef>

namespace attn {

/// @name For functions that work token by token, a batch is one longer sequence
/// @{

/// All tokens of a batch, one below the other.
/// @param batch  (b, n, d)
/// @return (b n, d)
Matrix tokens_of(const Tensor3& batch);

/// The inverse of the above.
/// @param tokens     (b n, d)
/// @param sequences  b
/// @param length     n
/// @return (b, n, d)
/// @throws ShapeError where there are not b n tokens
Tensor3 batch_of(const Matrix& tokens, std::size_t sequences, std::size_t length);

/// Applies a function of tokens, from (n, d) to (n, e), to one sequence, to a batch, or to the heads of a batch.
template <Attending T, class Function>
T token_by_token(const T& x, const Function& function)
{
    if constexpr (std::same_as<T, Matrix>)
        return function(x);
    else if constexpr (std::same_as<T, Tensor4>)
        return as_heads(token_by_token(as_batch(x), function), x.shape(0), x.shape(1));
    else
        return batch_of(function(tokens_of(x)), x.shape(0), x.shape(1));
}

/// @}

/// The type of one number per token: (n) for a sequence, (b, n) for a batch.
template <Sequence T>
using PerToken = std::conditional_t<std::same_as<T, Matrix>, Vector, Matrix>;

/// One number per token, ((b,) n), repeated for each of its features: ((b,) n, features).
Matrix spread(const Vector& numbers, std::size_t features);
/// @copydoc spread(const Vector&, std::size_t)
Tensor3 spread(const Matrix& numbers, std::size_t features);

} // namespace attn
