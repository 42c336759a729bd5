#include "attn/engines/train/kernels.hpp"

#include "attn/core/vectorised.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace attn::train {
namespace {

constexpr std::size_t lanes = 16; // partial sums of which every sum is made

/// e^x to two units of its last digit, for x from -87 to 88; what is below -87 counts as -87.
///
/// x = k log 2 + r, and e^r is a polynomial of r: the one of Moshier's Cephes library.
inline float exponential(float x)
{
    constexpr float to_whole = 12582912; // 1.5 * 2^23: adding it rounds to a whole number
    const float at_least = x < -87.0F ? -87.0F : x;
    const float shifted = at_least * 1.44269504F + to_whole;
    const float whole = shifted - to_whole;
    const float rest = (at_least - whole * 0.693359375F) + whole * 2.12194440e-4F;
    float power = 1.9875691500e-4F;
    power = power * rest + 1.3981999507e-3F;
    power = power * rest + 8.3334519073e-3F;
    power = power * rest + 4.1665795894e-2F;
    power = power * rest + 1.6666665459e-1F;
    power = power * rest + 5.0000001201e-1F;
    power = power * rest * rest + rest + 1.0F;
    const auto exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(to_whole);
    return power * std::bit_cast<float>((exponent + 127) << 23);
}

inline double exponential(double x) { return std::exp(x); }

template <class Number>
Number total(const Number (&sums)[lanes])
{
    Number sum = 0;
    for (const Number part : sums)
        sum += part;
    return sum;
}

/// row = e^(row - largest)
/// @return their sum
template <class Number>
ATTN_VECTORISED Number exponentials(Number* __restrict row, std::size_t count, Number largest)
{
    Number sums[lanes] = {};
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            row[i + lane] = exponential(row[i + lane] - largest);
            sums[lane] += row[i + lane];
        }
    for (std::size_t lane = 0; i < count; ++i, ++lane) {
        row[i] = exponential(row[i] - largest);
        sums[lane] += row[i];
    }
    return total(sums);
}

template <class Number>
ATTN_VECTORISED Number largest_of(const Number* row, std::size_t count)
{
    Number largest[lanes];
    std::fill_n(largest, lanes, row[0]);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
        for (std::size_t lane = 0; lane < lanes; ++lane)
            largest[lane] = row[i + lane] > largest[lane] ? row[i + lane] : largest[lane];
    for (; i < count; ++i)
        largest[0] = row[i] > largest[0] ? row[i] : largest[0];
    return *std::max_element(largest, largest + lanes);
}

template <class Number>
ATTN_VECTORISED void multiply_by(Number* row, std::size_t count, Number factor)
{
    for (std::size_t i = 0; i < count; ++i)
        row[i] *= factor;
}

template <class Number>
ATTN_VECTORISED void weigh(Number* __restrict weights, const Number* __restrict grad, std::size_t count, Number mean,
                           Number scale)
{
    for (std::size_t i = 0; i < count; ++i)
        weights[i] = weights[i] * (grad[i] - mean) * scale;
}

template <class Number>
ATTN_VECTORISED Number sum_of(const Number* row, std::size_t count)
{
    Number sums[lanes] = {};
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
        for (std::size_t lane = 0; lane < lanes; ++lane)
            sums[lane] += row[i + lane];
    for (std::size_t lane = 0; i < count; ++i, ++lane)
        sums[lane] += row[i];
    return total(sums);
}

} // namespace

template <class Number>
ATTN_VECTORISED Number dot(const Number* left, const Number* right, std::size_t count)
{
    Number sums[lanes] = {};
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
        for (std::size_t lane = 0; lane < lanes; ++lane)
            sums[lane] += left[i + lane] * right[i + lane];
    for (std::size_t lane = 0; i < count; ++i, ++lane)
        sums[lane] += left[i] * right[i];
    return total(sums);
}

template <class Number>
ATTN_VECTORISED void add(Number* __restrict into, const Number* __restrict from, std::size_t count, As<Number> factor)
{
    for (std::size_t i = 0; i < count; ++i)
        into[i] += factor * from[i];
}

template <class Number>
void softmax_row(Number* row, std::size_t count, std::size_t width)
{
    const Number sum = exponentials(row, count, largest_of(row, count));
    multiply_by(row, count, 1 / sum);
    std::fill(row + count, row + width, Number(0));
}

template <class Number>
void softmax_backward_row(Number* weights, const Number* grad, std::size_t count, As<Number> scale)
{
    weigh(weights, grad, count, dot(weights, grad, count), scale);
}

template <class Number>
void Norm<Number>::forward(const BasicView<Number>& x, Number epsilon, const BasicView<Number>& normal,
                           std::vector<Number>& inverse, const BasicView<Number>& output) const
{
    const std::size_t d = x.columns;
    inverse.resize(x.rows);
    for (std::size_t i = 0; i < x.rows; ++i) {
        const Number* from = x.row(i);
        Number* to = normal.row(i);
        const Number mean = sum_of(from, d) / static_cast<Number>(d);
        for (std::size_t j = 0; j < d; ++j)
            to[j] = from[j] - mean;
        inverse[i] = 1 / std::sqrt(dot(to, to, d) / static_cast<Number>(d) + epsilon);
        for (std::size_t j = 0; j < d; ++j) {
            to[j] *= inverse[i];
            output.row(i)[j] = to[j] * gain.data[j] + bias.data[j];
        }
    }
}

template <class Number>
void Norm<Number>::backward(const BasicView<Number>& grad, const BasicView<Number>& normal,
                            const std::vector<Number>& inverse, const BasicView<Number>& grad_gain,
                            const BasicView<Number>& grad_bias, const BasicView<Number>& grad_x) const
{
    const std::size_t d = grad.columns;
    std::vector<Number> through(d);
    for (std::size_t i = 0; i < grad.rows; ++i) {
        const Number *g = grad.row(i), *z = normal.row(i);
        for (std::size_t j = 0; j < d; ++j) {
            grad_gain.data[j] += g[j] * z[j];
            grad_bias.data[j] += g[j];
            through[j] = g[j] * gain.data[j];
        }
        const Number mean = sum_of(through.data(), d) / static_cast<Number>(d);
        const Number along = dot(through.data(), z, d) / static_cast<Number>(d);
        for (std::size_t j = 0; j < d; ++j)
            grad_x.row(i)[j] += inverse[i] * (through[j] - mean - z[j] * along);
    }
}

template <class Number>
void linear(const Given<Number>& x, const Given<Number>& weight, const Given<Number>& bias,
            const BasicView<Number>& output)
{
    for (std::size_t i = 0; i < output.rows; ++i)
        std::copy_n(bias.data, output.columns, output.row(i));
    multiply(x, weight, output, Accumulate::yes);
}

template <class Number>
void linear_backward(const Given<Number>& grad, const Given<Number>& x, const Given<Number>& weight,
                     const BasicView<Number>& grad_weight, const BasicView<Number>& grad_bias,
                     const BasicView<Number>& grad_x, Accumulate accumulate)
{
    multiply(x.transposed(), grad, grad_weight, Accumulate::yes);
    for (std::size_t i = 0; i < grad.rows; ++i)
        add(grad_bias.data, grad.row(i), grad.columns);
    multiply(grad, weight.transposed(), grad_x, accumulate);
}

template <class Number>
double cross_entropy_row(Number* logits, std::size_t classes, std::size_t target, double smoothing, As<Number> factor)
{
    const Number largest = largest_of(logits, classes);
    const double wanted = logits[target] - largest,
                 mean = sum_of(logits, classes) / static_cast<double>(classes) - largest;
    const Number sum = exponentials(logits, classes, largest);
    const double log_sum = std::log(static_cast<double>(sum));
    multiply_by(logits, classes, factor / sum);
    if (smoothing > 0)
        for (std::size_t i = 0; i < classes; ++i)
            logits[i] -= factor * static_cast<Number>(smoothing / static_cast<double>(classes));
    logits[target] -= factor * static_cast<Number>(1 - smoothing);
    return log_sum - (1 - smoothing) * wanted - smoothing * mean;
}

// The types of numbers that networks are trained in.
#define ATTN_TRAINS_IN(Number)                                                                                         \
    template void softmax_row(Number*, std::size_t, std::size_t);                                                      \
    template Number dot(const Number*, const Number*, std::size_t);                                                    \
    template void add(Number*, const Number*, std::size_t, Number);                                                    \
    template void softmax_backward_row(Number*, const Number*, std::size_t, Number);                                   \
    template struct Norm<Number>;                                                                                      \
    template void linear(const Given<Number>&, const Given<Number>&, const Given<Number>&, const BasicView<Number>&);  \
    template void linear_backward(const Given<Number>&, const Given<Number>&, const Given<Number>&,                    \
                                  const BasicView<Number>&, const BasicView<Number>&, const BasicView<Number>&,        \
                                  Accumulate);                                                                         \
    template double cross_entropy_row(Number*, std::size_t, std::size_t, double, Number);
ATTN_TRAINS_IN(float)
ATTN_TRAINS_IN(double)
#undef ATTN_TRAINS_IN

} // namespace attn::train
