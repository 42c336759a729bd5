#include "attn/ops/activation.hpp"

#include <cmath>
#include <numbers>

namespace attn {

Matrix relu(const Matrix& x) { return xt::where(x < 0.0, 0.0, x); } // unlike a maximum, keeps NaN

Matrix gelu(const Matrix& x) { return 0.5 * x * (1.0 + xt::erf(x / std::numbers::sqrt2)); }

Matrix gelu_tanh(const Matrix& x)
{
    const double slope = std::sqrt(2.0 / std::numbers::pi);
    return 0.5 * x * (1.0 + xt::tanh(slope * (x + 0.044715 * x * x * x)));
}

namespace {

template <class T>
T share(const T& x)
{
    // exp of a negative number only: it can't overflow.
    const T decay = xt::exp(-xt::abs(x));
    return xt::where(x >= 0.0, 1.0 / (1.0 + decay), decay / (1.0 + decay));
}

} // namespace

Matrix sigmoid(const Matrix& x) { return share(x); }
Vector sigmoid(const Vector& x) { return share(x); }

Matrix silu(const Matrix& x)
{
    const Matrix open = sigmoid(x);
    return x * open;
}

Matrix tanh(const Matrix& x) { return xt::tanh(x); }
Vector tanh(const Vector& x) { return xt::tanh(x); }
Tensor3 tanh(const Tensor3& x) { return xt::tanh(x); }

} // namespace attn
