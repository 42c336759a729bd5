// Compiled once per instruction set: Highway includes this file again and again, and chooses at run time.
#include "rows.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engines/fast/rows.cpp"
#include "targets.hpp"
#include <hwy/foreach_target.h> // must come before highway.h
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>

#include "attn/core/choices.hpp"
#include "attn/reference/layers/activation.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <numbers>

HWY_BEFORE_NAMESPACE();
namespace attn::fast::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::CappedTag<float, 16>;
using Floats = hn::Vec<Lanes>;
constexpr Lanes lanes;
constexpr std::size_t width = hn::MaxLanes(Lanes());

// ------------------------------------------------------------------------------------------------------ matrix products

// As many sums at once as there are registers for.
constexpr std::size_t most_rows = width >= 16 ? 12 : 6, few_rows = 4;
constexpr std::size_t kernel_columns = 2 * width;
static_assert(LinearMaps::panel_columns % kernel_columns == 0);

/// c (rows, kernel_columns) = bias + a (rows, depth) @ b, where b is a part of a panel. Each sum adds in the order of depth.
template <std::size_t rows>
HWY_INLINE void multiply_kernel(const ConstView& a, std::size_t first, const float* HWY_RESTRICT b,
                                const float* HWY_RESTRICT bias, float* HWY_RESTRICT c, std::size_t c_stride)
{
    Floats sums[rows][2];
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < rows; ++i) {
        sums[i][0] = hn::LoadU(lanes, bias);
        sums[i][1] = hn::LoadU(lanes, bias + width);
    }
    const float* HWY_RESTRICT row = a.row(first);
    const std::size_t stride = a.stride;
    for (std::size_t k = 0; k < a.columns; ++k) {
        const Floats left = hn::LoadU(lanes, b + k * LinearMaps::panel_columns),
                     right = hn::LoadU(lanes, b + k * LinearMaps::panel_columns + width);
        HWY_UNROLL(16)
        for (std::size_t i = 0; i < rows; ++i) {
            const Floats factor = hn::Set(lanes, row[i * stride + k]);
            sums[i][0] = hn::MulAdd(factor, left, sums[i][0]);
            sums[i][1] = hn::MulAdd(factor, right, sums[i][1]);
        }
    }
    HWY_UNROLL(16)
    for (std::size_t i = 0; i < rows; ++i) {
        hn::StoreU(sums[i][0], lanes, c + i * c_stride);
        hn::StoreU(sums[i][1], lanes, c + i * c_stride + width);
    }
}

template <std::size_t rows>
HWY_INLINE void multiply_rows(const ConstView& x, const LinearMaps& maps, std::size_t panel, std::size_t first,
                              const View& into)
{
    const std::size_t column = panel * LinearMaps::panel_columns;
    for (std::size_t j = 0; j < LinearMaps::panel_columns; j += kernel_columns)
        multiply_kernel<rows>(x, first, maps.panel(panel) + j, maps.bias(panel) + j, into.row(first) + column + j,
                              into.stride);
}

void multiply_panels(const ConstView& x, const LinearMaps& maps, std::size_t first, std::size_t last, const View& into)
{
    for (std::size_t panel = first; panel < last; ++panel) {
        std::size_t i = 0;
        for (; i + most_rows <= x.rows; i += most_rows)
            multiply_rows<most_rows>(x, maps, panel, i, into);
        for (; i + few_rows <= x.rows; i += few_rows)
            multiply_rows<few_rows>(x, maps, panel, i, into);
        for (; i < x.rows; ++i)
            multiply_rows<1>(x, maps, panel, i, into);
    }
}

// ------------------------------------------------------------------------------------------------------- number by number

/// Calls part(place, load, store) for each vector of a row; those of the last one touch the numbers that there are.
template <class Part>
HWY_INLINE void each_part(std::size_t count, const Part& part)
{
    std::size_t i = 0;
    for (; i + width <= count; i += width)
        part(
            i, [](const float* from) { return hn::LoadU(lanes, from); },
            [](Floats numbers, float* to) { hn::StoreU(numbers, lanes, to); });
    if (i == count)
        return;
    const auto there = hn::FirstN(lanes, count - i);
    part(
        i, [&](const float* from) { return hn::MaskedLoad(there, lanes, from); },
        [&](Floats numbers, float* to) { hn::BlendedStore(numbers, there, lanes, to); });
}

void add(const ConstView& x, const View& into)
{
    for (std::size_t i = 0; i < x.rows; ++i)
        each_part(x.columns, [&](std::size_t j, const auto& load, const auto& store) {
            store(hn::Add(load(into.row(i) + j), load(x.row(i) + j)), into.row(i) + j);
        });
}

void scale_by(const ConstView& x, const View& into)
{
    for (std::size_t i = 0; i < x.rows; ++i)
        each_part(x.columns, [&](std::size_t j, const auto& load, const auto& store) {
            store(hn::Mul(load(into.row(i) + j), load(x.row(i) + j)), into.row(i) + j);
        });
}

/// exp(x), whatever its size.
HWY_INLINE Floats exponential(Floats x) { return hn::Exp(lanes, hn::Min(hn::Set(lanes, 88.0F), x)); }

/// x / (1 + exp(-slope x)): x sigmoid(slope x)
HWY_INLINE Floats by_sigmoid(Floats x, Floats slope)
{
    return hn::Div(x, hn::Add(hn::Set(lanes, 1.0F), exponential(hn::Neg(hn::Mul(slope, x)))));
}

/// x times the normal distribution function: below zero that is exp(-x^2 / 2) W(1 / (1 + p |x|)), where W is a polynomial
/// that was fitted to it with a relative error of 3e-8; above, one minus that of -x.
HWY_INLINE Floats gelu(Floats x)
{
    constexpr float fitted[] = {0.248737429F, -0.147793836F, 0.158761633F, 0.0519636938F,
                                0.102788947F, 0.10305094F,   0.103757024F};
    const Floats one = hn::Set(lanes, 1.0F), size = hn::Abs(x);
    const Floats s = hn::Div(one, hn::MulAdd(hn::Set(lanes, 0.26F), size, one));
    Floats sum = hn::MulAdd(hn::Set(lanes, 0.0302307804F), s, hn::Set(lanes, -0.151496625F));
    for (const float coefficient : fitted)
        sum = hn::MulAdd(sum, s, hn::Set(lanes, coefficient));
    const Floats exponent = hn::Mul(hn::Mul(size, size), hn::Set(lanes, -0.5F));
    const Floats below = hn::Mul(hn::Mul(sum, s), exponential(exponent));
    return hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(lanes)), below, hn::Sub(one, below)));
}

/// 0.5 x (1 + tanh(u)) is x sigmoid(2 u).
HWY_INLINE Floats gelu_tanh(Floats x)
{
    const Floats square = hn::Mul(x, x);
    const float twice = 2 * std::sqrt(2 / std::numbers::pi_v<float>);
    return by_sigmoid(x, hn::MulAdd(hn::Set(lanes, 0.044715F * twice), square, hn::Set(lanes, twice)));
}

HWY_INLINE Floats relu(Floats x)
{
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(lanes)), x);
} // NaN stays, unlike in max

HWY_INLINE Floats silu(Floats x) { return by_sigmoid(x, hn::Set(lanes, 1.0F)); }

HWY_INLINE Floats quick_gelu(Floats x) { return by_sigmoid(x, hn::Set(lanes, 1.702F)); }

template <Floats (*function)(Floats)>
void each_number(const View& x)
{
    for (std::size_t i = 0; i < x.rows; ++i)
        each_part(x.columns, [&](std::size_t j, const auto& load, const auto& store) {
            store(function(load(x.row(i) + j)), x.row(i) + j);
        });
}

struct ActivationRow {
    Activation choice;
    ActivationKernel kernel;
};

/// The activations that are computed; others are refused.
constexpr ActivationRow activations[] = {
    {Activation::relu, each_number<relu>},
    {Activation::gelu, each_number<gelu>},
    {Activation::gelu_tanh, each_number<gelu_tanh>},
    {Activation::silu, each_number<silu>},
    {Activation::quick_gelu, each_number<quick_gelu>},
};

ActivationKernel find_kernel(Activation activation)
{
    const ActivationRow* const row = find_row<activations>(activation);
    return row == nullptr ? nullptr : row->kernel;
}

// ------------------------------------------------------------------------------------------------------------- whole rows

template <class Function>
HWY_INLINE float sum_of(const float* row, std::size_t count, const Function& function)
{
    Floats sum = hn::Zero(lanes);
    std::size_t i = 0;
    for (; i + width <= count; i += width)
        sum = hn::Add(sum, function(hn::LoadU(lanes, row + i)));
    if (i < count) {
        const auto there = hn::FirstN(lanes, count - i);
        sum = hn::Add(sum, hn::IfThenElseZero(there, function(hn::MaskedLoad(there, lanes, row + i))));
    }
    return hn::GetLane(hn::SumOfLanes(lanes, sum));
}

void normalize_row(const float* x, const Norm& norm, float epsilon, float* into)
{
    const std::size_t d = norm.gain.size();
    const float count = static_cast<float>(d);
    const float mean = norm.is_centered ? sum_of(x, d, [](Floats v) { return v; }) / count : 0;
    const Floats shift = hn::Set(lanes, mean);
    const float variance = sum_of(x, d,
                                  [&](Floats v) {
                                      const Floats centered = hn::Sub(v, shift);
                                      return hn::Mul(centered, centered);
                                  }) /
                           count;
    const Floats factor = hn::Set(lanes, 1 / std::sqrt(variance + epsilon));
    const float *gain = norm.gain.data(), *bias = norm.bias.empty() ? nullptr : norm.bias.data();
    each_part(d, [&](std::size_t j, const auto& load, const auto& store) {
        const Floats normalized = hn::Mul(hn::Sub(load(x + j), shift), factor);
        const Floats scaled = hn::Mul(normalized, load(gain + j));
        store(bias == nullptr ? scaled : hn::Add(scaled, load(bias + j)), into + j);
    });
}

void normalize(const ConstView& x, const Norm& norm, float epsilon, const View& into)
{
    for (std::size_t i = 0; i < x.rows; ++i)
        normalize_row(x.row(i), norm, epsilon, into.row(i));
}

// -------------------------------------------------------------------------------------------------------------- positions

/// Each pair (x, y) becomes (x cos - y sin, x sin + y cos).
HWY_INLINE void rotate_neighbours(const float* cosines, const float* sines, std::size_t pairs, float* head)
{
    for (std::size_t i = 0; i < pairs; ++i) {
        const float x = head[2 * i], y = head[2 * i + 1];
        head[2 * i] = x * cosines[i] - y * sines[i];
        head[2 * i + 1] = x * sines[i] + y * cosines[i];
    }
}

HWY_INLINE void rotate_halves(const float* cosines, const float* sines, std::size_t pairs, float* head)
{
    each_part(pairs, [&](std::size_t i, const auto& load, const auto& store) {
        const Floats x = load(head + i), y = load(head + pairs + i), cosine = load(cosines + i), sine = load(sines + i);
        store(hn::Sub(hn::Mul(x, cosine), hn::Mul(y, sine)), head + i);
        store(hn::Add(hn::Mul(x, sine), hn::Mul(y, cosine)), head + pairs + i);
    });
}

void rotate(const Rotation& rotation, std::size_t first, const View& heads)
{
    const std::size_t pairs = rotation.d / 2;
    for (std::size_t i = 0; i < heads.rows; ++i) {
        const std::size_t angles = (first + i) % rotation.n * pairs;
        for (std::size_t head = 0; head < heads.columns; head += rotation.d)
            (rotation.are_halves ? rotate_halves : rotate_neighbours)(
                rotation.cosines + angles, rotation.sines + angles, pairs, heads.row(i) + head);
    }
}

// -------------------------------------------------------------------------------------------------------- a single query

HWY_INLINE float dot(const float* left, const float* right, std::size_t count)
{
    Floats sum = hn::Zero(lanes);
    std::size_t i = 0;
    for (; i + width <= count; i += width)
        sum = hn::MulAdd(hn::LoadU(lanes, left + i), hn::LoadU(lanes, right + i), sum);
    if (i < count) {
        const auto there = hn::FirstN(lanes, count - i);
        sum = hn::MulAdd(hn::MaskedLoad(there, lanes, left + i), hn::MaskedLoad(there, lanes, right + i), sum);
    }
    return hn::GetLane(hn::SumOfLanes(lanes, sum));
}

void attend_once(const float* query, const ConstView& keys, const ConstView& values, float scale, float* scores,
                 float* context)
{
    // Compare the query with the keys.
    for (std::size_t j = 0; j < keys.rows; ++j)
        scores[j] = scale * dot(query, keys.row(j), keys.columns);

    // Replace the scores by their exponentials.
    const Floats largest = hn::Set(lanes, *std::max_element(scores, scores + keys.rows));
    each_part(keys.rows, [&](std::size_t j, const auto& load, const auto& store) {
        store(exponential(hn::Sub(load(scores + j), largest)), scores + j);
    });
    const float sum = sum_of(scores, keys.rows, [](Floats v) { return v; });

    // Average the values: four sums, so that none waits for the one before.
    each_part(values.columns, [&](std::size_t k, const auto& load, const auto& store) {
        Floats a = hn::Zero(lanes), b = a, c = a, d = a;
        const auto add_value = [&](std::size_t j, Floats& to) {
            to = hn::MulAdd(hn::Set(lanes, scores[j]), load(values.row(j) + k), to);
        };
        std::size_t j = 0;
        for (; j + 4 <= values.rows; j += 4) {
            add_value(j, a);
            add_value(j + 1, b);
            add_value(j + 2, c);
            add_value(j + 3, d);
        }
        for (; j < values.rows; ++j)
            add_value(j, a);
        store(hn::Div(hn::Add(hn::Add(a, b), hn::Add(c, d)), hn::Set(lanes, sum)), context + k);
    });
}

} // namespace attn::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attn::fast {
namespace {
HWY_EXPORT(multiply_panels);
HWY_EXPORT(normalize);
HWY_EXPORT(add);
HWY_EXPORT(scale_by);
HWY_EXPORT(find_kernel);
HWY_EXPORT(rotate);
HWY_EXPORT(attend_once);
} // namespace

void multiply_panels(const ConstView& x, const LinearMaps& maps, std::size_t first, std::size_t last, const View& into)
{
    HWY_DYNAMIC_DISPATCH(multiply_panels)(x, maps, first, last, into);
}

void multiply(const ConstView& x, const LinearMaps& maps, const View& into)
{
    constexpr std::size_t worth_a_thread = std::size_t{1} << 17; // multiplications
    const std::size_t panels = maps.panels(), work = x.rows * x.columns * maps.d_out() / worth_a_thread;
    const std::size_t most = static_cast<std::size_t>(omp_get_max_threads());
    const std::size_t shares = omp_in_parallel() != 0 ? 1 : std::clamp<std::size_t>(work, 1, std::min(most, panels));
    if (shares == 1)
        return multiply_panels(x, maps, 0, panels, into);
#pragma omp parallel for num_threads(static_cast <int>(shares)) schedule(static)
    for (std::size_t share = 0; share < shares; ++share)
        multiply_panels(x, maps, share * panels / shares, (share + 1) * panels / shares, into);
}

void normalize(const ConstView& x, const Norm& norm, float epsilon, const View& into)
{
    HWY_DYNAMIC_DISPATCH(normalize)(x, norm, epsilon, into);
}

void add(const ConstView& x, const View& into) { HWY_DYNAMIC_DISPATCH(add)(x, into); }

void scale_by(const ConstView& x, const View& into) { HWY_DYNAMIC_DISPATCH(scale_by)(x, into); }

ActivationKernel find_kernel(Activation activation) { return HWY_DYNAMIC_DISPATCH(find_kernel)(activation); }

void rotate(const Rotation& rotation, std::size_t first, const View& heads)
{
    HWY_DYNAMIC_DISPATCH(rotate)(rotation, first, heads);
}

void attend_once(const float* query, const ConstView& keys, const ConstView& values, float scale, float* scores,
                 float* context)
{
    HWY_DYNAMIC_DISPATCH(attend_once)(query, keys, values, scale, scores, context);
}

} // namespace attn::fast
#endif
