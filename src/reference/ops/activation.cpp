#include "attn/reference/ops/activation.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attn {

namespace {

template <class T, class Function>
T each(T x, const Function& function)
{
    std::ranges::transform(x.storage(), x.storage().begin(), function);
    return x;
}

double tanh_of(double x) { return std::tanh(x); }

} // namespace

Matrix relu(const Matrix& x)
{
    return each(x, [](double value) { return value < 0 ? 0 : value; }); // unlike a maximum, keeps NaN
}

Matrix gelu(const Matrix& x)
{
    return each(x, [](double value) { return 0.5 * value * (1 + std::erf(value / std::numbers::sqrt2)); });
}

namespace {

/// @param slope  sqrt(2 / pi), or what a model has for it
Matrix gelu_by_tanh(const Matrix& x, double slope)
{
    return each(x, [slope](double value) {
        return 0.5 * value * (1 + std::tanh(slope * (value + 0.044715 * value * value * value)));
    });
}

} // namespace

Matrix gelu_tanh(const Matrix& x) { return gelu_by_tanh(x, std::sqrt(2 / std::numbers::pi)); }
Matrix gelu_bloom(const Matrix& x) { return gelu_by_tanh(x, 0.79788456); }

double sigmoid(double x)
{
    const double decay = std::exp(-std::abs(x)); // of a negative number only: it can't overflow
    return (x >= 0 ? 1 : decay) / (1 + decay);
}

Matrix sigmoid(const Matrix& x)
{
    return each(x, [](double value) { return sigmoid(value); });
}

Vector sigmoid(const Vector& x)
{
    return each(x, [](double value) { return sigmoid(value); });
}

Matrix silu(const Matrix& x)
{
    return each(x, [](double value) { return value * sigmoid(value); });
}

Matrix quick_gelu(const Matrix& x)
{
    return each(x, [](double value) { return value * sigmoid(1.702 * value); });
}

Matrix tanh(const Matrix& x) { return each(x, tanh_of); }
Vector tanh(const Vector& x) { return each(x, tanh_of); }
Tensor3 tanh(const Tensor3& x) { return each(x, tanh_of); }

} // namespace attn
