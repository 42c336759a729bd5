#pragma once

#include "attn/tensor.hpp"

namespace attn {

/// @name Activations, element by element
/// @{

/// max(x, 0)
Matrix relu(const Matrix& x);

/// 1 / (1 + exp(-x)), without overflow at either end
Matrix sigmoid(const Matrix& x);

/// The hyperbolic tangent.
Matrix tanh(const Matrix& x);
/// @copydoc tanh(const Matrix&)
Tensor3 tanh(const Tensor3& x);

/// @}

} // namespace attn
