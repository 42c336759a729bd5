#pragma once

#include "attn/core/tensor.hpp"

namespace attn {

/// @name Activations, element by element
/// @{

/// max(x, 0)
Matrix relu(const Matrix& x);

/// x times the probability that a standard normal number is below x: 0.5 x (1 + erf(x / sqrt(2))).
/// @see Hendrycks and Gimpel 2016
Matrix gelu(const Matrix& x);

/// The approximation of gelu() by tanh: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
/// @see Hendrycks and Gimpel 2016, section 2
Matrix gelu_tanh(const Matrix& x);
/// The same with 0.79788456 for sqrt(2 / pi), as BLOOM has it.
Matrix gelu_bloom(const Matrix& x);

/// 1 / (1 + exp(-x)), without overflow at either end
double sigmoid(double x);
/// @copydoc sigmoid(double)
Matrix sigmoid(const Matrix& x);
/// @copydoc sigmoid(double)
Vector sigmoid(const Vector& x);

/// x sigmoid(x), also called swish.
/// @see Hendrycks and Gimpel 2016; Ramachandran, Zoph and Le 2017
Matrix silu(const Matrix& x);

/// An approximation of gelu() by sigmoid: x sigmoid(1.702 x).
/// @see Hendrycks and Gimpel 2016, section 2
Matrix quick_gelu(const Matrix& x);

/// The hyperbolic tangent.
Matrix tanh(const Matrix& x);
/// @copydoc tanh(const Matrix&)
Vector tanh(const Vector& x);
/// @copydoc tanh(const Matrix&)
Tensor3 tanh(const Tensor3& x);

/// @}

} // namespace attn
