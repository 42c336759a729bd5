#include "kernels.hpp"

#include "vectorised.hpp"

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

inline float total(const float (&sums)[lanes])
{
    float sum = 0;
    for (const float part : sums)
        sum += part;
    return sum;
}

/// row = e^(row - largest)
/// @return their sum
ATTN_VECTORISED float exponentials(float* __restrict row, std::size_t count, float largest)
{
    float sums[lanes] = {};
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

ATTN_VECTORISED float largest_of(const float* row, std::size_t count)
{
    float largest[lanes];
    std::fill_n(largest, lanes, row[0]);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
        for (std::size_t lane = 0; lane < lanes; ++lane)
            largest[lane] = row[i + lane] > largest[lane] ? row[i + lane] : largest[lane];
    for (; i < count; ++i)
        largest[0] = row[i] > largest[0] ? row[i] : largest[0];
    return *std::max_element(largest, largest + lanes);
}

ATTN_VECTORISED void multiply_by(float* row, std::size_t count, float factor)
{
    for (std::size_t i = 0; i < count; ++i)
        row[i] *= factor;
}

ATTN_VECTORISED void weigh(float* __restrict weights, const float* __restrict grad, std::size_t count, float mean,
                           float scale)
{
    for (std::size_t i = 0; i < count; ++i)
        weights[i] = weights[i] * (grad[i] - mean) * scale;
}

ATTN_VECTORISED float sum_of(const float* row, std::size_t count)
{
    float sums[lanes] = {};
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
        for (std::size_t lane = 0; lane < lanes; ++lane)
            sums[lane] += row[i + lane];
    for (std::size_t lane = 0; i < count; ++i, ++lane)
        sums[lane] += row[i];
    return total(sums);
}

} // namespace

ATTN_VECTORISED float dot(const float* left, const float* right, std::size_t count)
{
    float sums[lanes] = {};
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
        for (std::size_t lane = 0; lane < lanes; ++lane)
            sums[lane] += left[i + lane] * right[i + lane];
    for (std::size_t lane = 0; i < count; ++i, ++lane)
        sums[lane] += left[i] * right[i];
    return total(sums);
}

ATTN_VECTORISED void add(float* __restrict into, const float* __restrict from, std::size_t count, float factor)
{
    for (std::size_t i = 0; i < count; ++i)
        into[i] += factor * from[i];
}

void softmax_row(float* row, std::size_t count, std::size_t width)
{
    const float sum = exponentials(row, count, largest_of(row, count));
    multiply_by(row, count, 1 / sum);
    std::fill(row + count, row + width, 0.0F);
}

void softmax_backward_row(float* weights, const float* grad, std::size_t count, float scale)
{
    weigh(weights, grad, count, dot(weights, grad, count), scale);
}

void Norm::forward(const View& x, float epsilon, const View& normal, std::vector<float>& inverse,
                   const View& output) const
{
    const std::size_t d = x.columns;
    inverse.resize(x.rows);
    for (std::size_t i = 0; i < x.rows; ++i) {
        const float* from = x.row(i);
        float* to = normal.row(i);
        const float mean = sum_of(from, d) / static_cast<float>(d);
        for (std::size_t j = 0; j < d; ++j)
            to[j] = from[j] - mean;
        inverse[i] = 1 / std::sqrt(dot(to, to, d) / static_cast<float>(d) + epsilon);
        for (std::size_t j = 0; j < d; ++j) {
            to[j] *= inverse[i];
            output.row(i)[j] = to[j] * gain.data[j] + bias.data[j];
        }
    }
}

void Norm::backward(const View& grad, const View& normal, const std::vector<float>& inverse, const View& grad_gain,
                    const View& grad_bias, const View& grad_x) const
{
    const std::size_t d = grad.columns;
    std::vector<float> through(d);
    for (std::size_t i = 0; i < grad.rows; ++i) {
        const float *g = grad.row(i), *z = normal.row(i);
        for (std::size_t j = 0; j < d; ++j) {
            grad_gain.data[j] += g[j] * z[j];
            grad_bias.data[j] += g[j];
            through[j] = g[j] * gain.data[j];
        }
        const float mean = sum_of(through.data(), d) / static_cast<float>(d);
        const float along = dot(through.data(), z, d) / static_cast<float>(d);
        for (std::size_t j = 0; j < d; ++j)
            grad_x.row(i)[j] += inverse[i] * (through[j] - mean - z[j] * along);
    }
}

void linear(const ConstView& x, const ConstView& weight, const ConstView& bias, const View& output)
{
    for (std::size_t i = 0; i < output.rows; ++i)
        std::copy_n(bias.data, output.columns, output.row(i));
    multiply(x, weight, output, Into::sum);
}

void linear_backward(const ConstView& grad, const ConstView& x, const ConstView& weight, const View& grad_weight,
                     const View& grad_bias, const View& grad_x, Into what_is_there)
{
    multiply(x.transposed(), grad, grad_weight, Into::sum);
    for (std::size_t i = 0; i < grad.rows; ++i)
        add(grad_bias.data, grad.row(i), grad.columns);
    multiply(grad, weight.transposed(), grad_x, what_is_there);
}

double cross_entropy_row(float* logits, std::size_t classes, std::size_t target, double smoothing, float factor)
{
    const float largest = largest_of(logits, classes);
    const double wanted = logits[target] - largest,
                 mean = sum_of(logits, classes) / static_cast<double>(classes) - largest;
    const float sum = exponentials(logits, classes, largest);
    const double log_sum = std::log(static_cast<double>(sum));
    multiply_by(logits, classes, factor / sum);
    if (smoothing > 0)
        for (std::size_t i = 0; i < classes; ++i)
            logits[i] -= factor * static_cast<float>(smoothing / static_cast<double>(classes));
    logits[target] -= factor * static_cast<float>(1 - smoothing);
    return log_sum - (1 - smoothing) * wanted - smoothing * mean;
}

} // namespace attn::train
