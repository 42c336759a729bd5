#pragma once

#include "attn/engines/fast/encoder.hpp"

#include "attn/core/choices.hpp"
#include "attn/reference/layers/activation.hpp"
#include "attn/reference/layers/decoder.hpp"
#include "attn/reference/models/llama.hpp"
#include "attn/reference/ops/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <random>
#include <vector>

namespace attn::test {

/// A draw of sizes, options and weights, whose numbers are exactly float32: the reference computes with the same ones.
class Draws {
public:
    explicit Draws(std::uint64_t seed) : numbers_(seed), engine_(seed) {}

    std::size_t draw(std::size_t count) { return engine_() % count; }
    template <class T>
    T one_of(std::initializer_list<T> all)
    {
        return all.begin()[draw(all.size())];
    }

    Tensor3 tokens(std::size_t b, std::size_t n, std::size_t d) { return numbers_.tensor3(b, n, d); }
    Matrix matrix(std::size_t n, std::size_t d) { return numbers_.matrix(n, d); }

    LinearWeights map(std::size_t d_in, std::size_t d_out, bool is_biased)
    {
        LinearWeights weights{numbers_.matrix(d_in, d_out, scale(d_in))};
        if (is_biased)
            weights.bias = numbers_.vector(d_out, 0.5);
        return weights;
    }

    LayerNormWeights norm(std::size_t d)
    {
        LayerNormWeights weights{1.0 + numbers_.vector(d, 0.25)};
        if (draw(2) == 0)
            weights.bias = numbers_.vector(d, 0.5);
        return weights;
    }
    RmsNormWeights rms_norm(std::size_t d) { return {1.0 + numbers_.vector(d, 0.25)}; }

    /// @param groups  key/value heads
    MultiHeadWeights heads(std::size_t d_model, std::size_t d_memory, std::size_t heads, std::size_t groups,
                           std::size_t d_k, bool is_biased)
    {
        const std::size_t d_v = one_of<std::size_t>({d_k, d_k, d_k + 1});
        return {.query = map(d_model, heads * d_k, is_biased),
                .key = map(d_memory, groups * d_k, is_biased),
                .value = map(d_memory, groups * d_v, is_biased),
                .output = map(heads * d_v, d_model, is_biased)};
    }

    FeedForwardWeights feed_forward(std::size_t d_model, std::size_t d_ff, bool is_biased)
    {
        return {map(d_model, d_ff, is_biased), map(d_ff, d_model, is_biased)};
    }

    EncoderOptions options(std::size_t heads)
    {
        EncoderOptions drawn;
        drawn.attention.heads = heads;
        drawn.attention.positions = one_of({HeadPositions::none, HeadPositions::rotary, HeadPositions::alibi});
        drawn.attention.rotary.layout = one_of({RotaryLayout::pairs, RotaryLayout::halves});
        drawn.attention.rotary.first = draw(3);
        if (draw(3) == 0)
            drawn.attention.causal = Causal::bottom_right;
        if (draw(4) == 0)
            drawn.attention.scale = 0.5;
        if (draw(4) == 0)
            drawn.attention.softcap = 4;
        drawn.feed_forward.activation = computed_activation();
        drawn.placement = one_of({NormPlacement::post, NormPlacement::pre});
        drawn.norm.epsilon = one_of({0x1p-17, 0x1p-10});
        return drawn;
    }

private:
    /// One that has a kernel.
    Activation computed_activation()
    {
        std::vector<Activation> computed;
        std::ranges::copy_if(enumerators<Activation>, std::back_inserter(computed), fast::computes);
        return computed[draw(computed.size())];
    }

    /// About one over the root of d_in, so that sums stay as large as their terms.
    static double scale(std::size_t d_in) { return std::exp2(-std::floor(std::log2(d_in) / 2)); }

    RandomNumbers numbers_;
    std::mt19937_64 engine_;
};

/// A batch in float32, and what the kernels make of it.
struct FloatTokens {
    template <class T>
    explicit FloatTokens(const T& tokens) : numbers(tokens.begin(), tokens.end()), shape(shape_of(tokens))
    {
    }
    fast::Tokens<float> get()
    {
        const std::size_t n = shape[shape.size() - 2], d = shape.back();
        return {numbers.data(), n, d, shape.size() == 3 ? std::optional(shape[0]) : std::nullopt};
    }
    std::vector<float> numbers;
    Shape shape;
};

/// The largest difference, as a multiple of float32's roundoff of the largest number.
template <class T>
double roundings_off(const std::vector<float>& found, const T& expected)
{
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double off = std::abs(found[i] - expected.data()[i]);
        worst = off <= worst ? worst : off; // NaN stays
        largest = std::max(largest, std::abs(expected.data()[i]));
    }
    return worst / largest * 0x1p24;
}

} // namespace attn::test
