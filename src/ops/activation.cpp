#include "attn/ops/activation.hpp"

namespace attn {

Matrix relu(const Matrix& x) { return xt::where(x < 0.0, 0.0, x); } // unlike a maximum, keeps NaN

Matrix sigmoid(const Matrix& x)
{
    // exp of a negative number only: it can't overflow.
    const Matrix decay = xt::exp(-xt::abs(x));
    return xt::where(x >= 0.0, 1.0 / (1.0 + decay), decay / (1.0 + decay));
}

Matrix tanh(const Matrix& x) { return xt::tanh(x); }
Tensor3 tanh(const Tensor3& x) { return xt::tanh(x); }

} // namespace attn
