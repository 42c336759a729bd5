#include "drawn.hpp"

#include <cmath>

namespace attn::test {
namespace {

/// A part of a contiguous tensor, as an array.
Array part_of(const std::vector<float>& numbers, std::size_t block, std::size_t rows, std::size_t columns)
{
    const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(block * rows * columns);
    return {{rows, columns}, {first, first + static_cast<std::ptrdiff_t>(rows * columns)}};
}

} // namespace

DrawnAttention::DrawnAttention(std::uint64_t seed) : engine_(seed)
{
    b = one_of<std::size_t>({1, 1, 2});
    g = one_of<std::size_t>({1, 1, 2, 3});
    h = g * one_of<std::size_t>({1, 1, 2});
    n = one_of<std::size_t>({1, 2, 3, 7, 13, 31, 61, 127, 131});
    m = one_of<std::size_t>({1, 2, 3, 7, 13, 31, 61, 127, 131, 257});
    d_k = one_of<std::size_t>({1, 3, 8, 17, 32});
    d_v = one_of<std::size_t>({1, 3, 8, 17, 33});
    const float size = one_of({1.F, 1.F, 30.F});
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
    fast::attention(fast::head_rows<const float>(queries_.data(), {b, h, n, d_k}),
                    fast::head_rows<const float>(keys_.data(), {b, g, m, d_k}),
                    fast::head_rows<const float>(values_.data(), {b, g, m, d_v}), scoring,
                    fast::head_rows(context.data(), {b, h, n, d_v}), {largest, sum}, trace);
}

Array DrawnAttention::queries_of(std::size_t sequence, std::size_t head) const
{
    return part_of(queries_, sequence * h + head, n, d_k);
}

Array DrawnAttention::keys_of(std::size_t sequence, std::size_t head) const
{
    return part_of(keys_, sequence * g + head / (h / g), m, d_k);
}

Array DrawnAttention::values_of(std::size_t sequence, std::size_t head) const
{
    return part_of(values_, sequence * g + head / (h / g), m, d_v);
}

Array DrawnAttention::context_of(std::size_t sequence, std::size_t head) const
{
    return part_of(context, sequence * h + head, n, d_v);
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
