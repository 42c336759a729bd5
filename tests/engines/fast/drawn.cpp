#include "drawn.hpp"
#include "test.hpp"

#include "attn/core/number_type.hpp"

#include <cmath>
#include <limits>

namespace attn::test {

Array matrix_of(const std::vector<float>& numbers, std::size_t block, std::size_t rows, std::size_t columns)
{
    const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(block * rows * columns);
    return {{rows, columns}, {first, first + static_cast<std::ptrdiff_t>(rows * columns)}};
}

const formula::ErrorModel in_float32{.roundoff = roundoff_of(NumberType::float32),
                                     .stored_roundoff = roundoff_of(NumberType::float32)};

double worst_error(const Array& found, const formula::Evaluated& expected)
{
    constexpr double underflow = std::numeric_limits<float>::min(); // below it, float32 has fewer digits
    double worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double off = std::abs(found.values[i] - expected.value.values[i]);
        if (!(off <= 0))
            worst = std::max(worst, std::isfinite(off) ? off / (expected.error[i] + underflow) : infinity);
    }
    return worst;
}

DrawnAttention::DrawnAttention(std::uint64_t seed) : engine_(seed)
{
    b = one_of<std::size_t>({1, 1, 2});
    g = one_of<std::size_t>({1, 1, 2, 3});
    h = g * one_of<std::size_t>({1, 1, 2});
    n = one_of<std::size_t>({1, 2, 3, 7, 13, 31, 61, 127, 131});
    m = one_of<std::size_t>({1, 2, 3, 7, 13, 31, 61, 127, 131, 257});
    d_k = one_of<std::size_t>({1, 3, 8, 17, 32});
    d_v = one_of<std::size_t>({1, 3, 8, 17, 33});
    const float size = one_of({1.F, 1.F, 30.F, 100.F}); // scores to about 1, 1000, 10000
    queries_ = numbers(b * h * n * d_k, size);
    keys_ = numbers(b * g * m * d_k, size);
    values_ = numbers(b * g * m * d_v, 1);
    context.resize(b * h * n * d_v);
    largest.resize(b * h * n);
    sum.resize(b * h * n);
    draw_scoring();
}

std::vector<float> DrawnAttention::numbers(std::size_t count, float size)
{
    std::vector<float> all(count);
    for (float& number : all)
        number = size * (static_cast<float>(engine_() >> 40) * 0x1p-23F - 1);
    return all;
}

void DrawnAttention::draw_scoring()
{
    if (draw(4) == 0)
        scoring.scale = 0.3F;
    if (draw(6) == 0)
        scoring.softcap = 5.F;
    if (draw(4) == 0)
        scoring.alibi_slopes = slopes_ = numbers(h, 1);
    if (draw(4) == 0) {
        bias_ = numbers(h * n * m, 3);
        scoring.bias = {bias_.data(), {0, n * m, m}};
    }
    if (draw(3) == 0) {
        mask_ = std::make_unique<bool[]>(b * n * m);
        for (std::size_t i = 0; i < b * n * m; ++i)
            mask_[i] = draw(3) != 0;
        scoring.mask = {mask_.get(), {n * m, 0, m}};
    }
    if (draw(4) == 0) {
        for (std::size_t i = 0; i < b; ++i)
            lengths_.push_back(static_cast<std::int64_t>(draw(m + 1)));
        scoring.key_lengths = lengths_;
    }
    if (draw(2) == 0)
        scoring.causal = one_of({Causal::bottom_right, Causal::top_left});
    if (!lengths_.empty() && draw(3) == 0)
        scoring.causal = Causal::by_length;
    if (draw(6) == 0)
        scoring.window.left = draw(m + 1);
    if (draw(8) == 0)
        scoring.window.right = draw(m + 1);
}

void DrawnAttention::run(const Trace& trace)
{
    fast::attention(queries(), keys(), values(), scoring, fast::head_rows(context.data(), {b, h, n, d_v}),
                    {largest, sum}, trace);
}

std::string DrawnAttention::scores_formula() const
{
    const float scale = scoring.scale.value_or(1 / std::sqrt(static_cast<float>(d_k)));
    const std::string scaled = "queries @ keys.T * " + exact_text(scale);
    if (!scoring.softcap)
        return scaled + " + bias";
    const std::string cap = exact_text(*scoring.softcap);
    return cap + " * tanh((" + scaled + ") / " + cap + ") + bias";
}

Array DrawnAttention::queries_of(std::size_t sequence, std::size_t head) const
{
    return matrix_of(queries_, sequence * h + head, n, d_k);
}

Array DrawnAttention::keys_of(std::size_t sequence, std::size_t head) const
{
    return matrix_of(keys_, sequence * g + head / (h / g), m, d_k);
}

Array DrawnAttention::values_of(std::size_t sequence, std::size_t head) const
{
    return matrix_of(values_, sequence * g + head / (h / g), m, d_v);
}

Array DrawnAttention::context_of(std::size_t sequence, std::size_t head) const
{
    return matrix_of(context, sequence * h + head, n, d_v);
}

Array DrawnAttention::bias_of(std::size_t head) const
{
    Array all{{n, m}, std::vector<double>(n * m)};
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < m; ++j) {
            if (!bias_.empty())
                all.values[i * m + j] = bias_[(head * n + i) * m + j];
            const double distance = std::abs(static_cast<double>(i + m) - static_cast<double>(n + j));
            if (!slopes_.empty())
                all.values[i * m + j] -= slopes_[head] * distance;
        }
    return all;
}

/// By the definitions of masks, pair by pair.
bool DrawnAttention::is_allowed(std::size_t sequence, std::size_t i, std::size_t j) const
{
    const long key = static_cast<long>(j), all = static_cast<long>(m);
    const long length = lengths_.empty() ? all : static_cast<long>(lengths_[sequence]);
    long first = all - static_cast<long>(n);
    if (scoring.causal == Causal::top_left)
        first = 0;
    if (scoring.causal == Causal::by_length)
        first = length - static_cast<long>(n);
    const long after = key - (first + static_cast<long>(i));
    if (key >= length || (scoring.causal && after > 0))
        return false;
    if ((scoring.window.left && -after > static_cast<long>(*scoring.window.left)) ||
        (scoring.window.right && after > static_cast<long>(*scoring.window.right)))
        return false;
    return !mask_ || mask_[(sequence * n + i) * m + j];
}

Array DrawnAttention::mask_of(std::size_t sequence) const
{
    Array all{{n, m}, std::vector<double>(n * m)};
    all.type = ElementType::boolean;
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < m; ++j)
            all.values[i * m + j] = is_allowed(sequence, i, j) ? 1 : 0;
    return all;
}

} // namespace attn::test
