#pragma once

#include "by_hand.hpp"
#include "masked.hpp"
#include "generators.hpp"

#include "attn/core/recorder.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/layers/encoder.hpp"
#include "attn/reference/layers/experts.hpp"
#include "attn/reference/layers/recurrent/gru.hpp"
#include "attn/reference/layers/recurrent/lstm.hpp"

#include <optional>
#include <string>
#include <vector>

/// Weights drawn from a seed, and what layers compute, once more by plain loops.
namespace attn::test {

// ------------------------------------------------------------------------------------------------- sequences and traces

inline constexpr NormPlacement placements[] = {NormPlacement::post, NormPlacement::pre};

inline Matrix sequence_by_hand(const Tensor3& batch, std::size_t which)
{
    Matrix sequence(Matrix::shape_type{batch.shape(1), batch.shape(2)});
    for (std::size_t i = 0; i < sequence.shape(0); ++i)
        for (std::size_t j = 0; j < sequence.shape(1); ++j)
            sequence(i, j) = batch(which, i, j);
    return sequence;
}

inline Mask sequence_by_hand(const BatchMask& batch, std::size_t which)
{
    Mask mask(Mask::shape_type{batch.shape(1), batch.shape(2)});
    for (std::size_t i = 0; i < mask.shape(0); ++i)
        for (std::size_t j = 0; j < mask.shape(1); ++j)
            mask(i, j) = batch(which, i, j);
    return mask;
}

inline Matrix identity(std::size_t n)
{
    Matrix matrix(Matrix::shape_type{n, n}, 0.0);
    for (std::size_t i = 0; i < n; ++i)
        matrix(i, i) = 1;
    return matrix;
}

inline Mask causal_by_hand(std::size_t n)
{
    Mask mask(Mask::shape_type{n, n});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
            mask(i, j) = j <= i;
    return mask;
}

inline bool close_heads(const MultiHead& left, const MultiHead& right)
{
    bool same = close(left.output, right.output) && left.weights.size() == right.weights.size();
    for (std::size_t head = 0; same && head < left.weights.size(); ++head)
        same = close(left.weights[head], right.weights[head]);
    return same;
}

/// The rows in another order: row i of the result is row order[i].
inline Matrix rows_by_hand(const Matrix& matrix, const std::vector<std::size_t>& order)
{
    Matrix result(Matrix::shape_type{order.size(), matrix.shape(1)});
    for (std::size_t i = 0; i < order.size(); ++i)
        for (std::size_t j = 0; j < matrix.shape(1); ++j)
            result(i, j) = matrix(order[i], j);
    return result;
}

inline Matrix columns_by_hand(const Matrix& matrix, std::size_t begin, std::size_t end)
{
    Matrix result(Matrix::shape_type{matrix.shape(0), end - begin});
    for (std::size_t i = 0; i < matrix.shape(0); ++i)
        for (std::size_t j = begin; j < end; ++j)
            result(i, j - begin) = matrix(i, j);
    return result;
}

inline Matrix sum_by_hand(const Matrix& left, const Matrix& right)
{
    Matrix sum(left.shape());
    for (std::size_t i = 0; i < left.shape(0); ++i)
        for (std::size_t j = 0; j < left.shape(1); ++j)
            sum(i, j) = left(i, j) + right(i, j);
    return sum;
}

/// The steps of a run, which is given the trace.
template <class Run>
Recorder recorded(const Run& run)
{
    Recorder recorder;
    run(Trace(recorder));
    return recorder;
}

/// What is wrong with the steps of a run, a line each: none where every formula gives what was recorded.
inline std::vector<std::string> wrong_steps(const Recorder& recorder)
{
    const formula::Verification verification = formula::verify(recorder.recording());
    std::vector<std::string> messages;
    if (verification.recomputed() == 0)
        messages.emplace_back("no step has a formula");
    for (const formula::StepCheck& check : verification.checks)
        if (!check.passed())
            messages.push_back(check.message);
    return messages;
}

/// How many steps have a path that ends in that name.
inline std::size_t count_of(const Recorder& recorder, const std::string& name)
{
    std::size_t count = 0;
    for (const Step& step : recorder.steps())
        count += step.path == name || step.path.ends_with("." + name) ? 1 : 0;
    return count;
}

// -------------------------------------------------------------------------------------------------------------- weights

inline LinearWeights random_linear(Numbers& numbers, std::size_t d_in, std::size_t d_out, bool is_biased = true)
{
    LinearWeights weights{numbers.matrix(d_in, d_out)};
    if (is_biased)
        weights.bias = numbers.vector(d_out);
    return weights;
}

/// The sizes of one multi-head attention: all different unless told otherwise.
struct HeadSizes {
    std::size_t d_model = 6;
    std::size_t h_d_k = 4;
    std::size_t h_d_v = 8;
    std::size_t d_memory = 6;
    std::size_t d_value = 6;
    bool has_output_map = true;
    bool is_biased = true;
};

inline MultiHeadWeights random_heads(Numbers& numbers, const HeadSizes& s = {})
{
    MultiHeadWeights weights{random_linear(numbers, s.d_model, s.h_d_k, s.is_biased),
                             random_linear(numbers, s.d_memory, s.h_d_k, s.is_biased),
                             random_linear(numbers, s.d_value, s.h_d_v, s.is_biased)};
    if (s.has_output_map)
        weights.output = random_linear(numbers, s.h_d_v, s.d_model, s.is_biased);
    return weights;
}

inline FeedForwardWeights random_feed_forward(Numbers& numbers, std::size_t d_model, std::size_t d_ff,
                                              bool is_biased = true)
{
    LinearWeights hidden = random_linear(numbers, d_model, d_ff, is_biased);
    return {std::move(hidden), random_linear(numbers, d_ff, d_model, is_biased)};
}

inline GatedFeedForwardWeights random_gated_feed_forward(Numbers& numbers, std::size_t d_model, std::size_t d_ff,
                                                         bool is_biased = false)
{
    LinearWeights gate = random_linear(numbers, d_model, d_ff, is_biased);
    LinearWeights up = random_linear(numbers, d_model, d_ff, is_biased);
    return {std::move(gate), std::move(up), random_linear(numbers, d_ff, d_model, is_biased)};
}

/// With a correction bias, and a shared expert that has a gate.
inline ExpertsWeights random_experts(Numbers& numbers, std::size_t d_model, std::size_t d_ff, std::size_t experts,
                                     bool has_all_parts = true)
{
    ExpertsWeights weights{random_linear(numbers, d_model, experts, false)};
    for (std::size_t i = 0; i < experts; ++i)
        weights.experts.push_back(random_gated_feed_forward(numbers, d_model, d_ff));
    if (!has_all_parts)
        return weights;
    weights.correction_bias = numbers.vector(experts);
    weights.shared_expert = random_gated_feed_forward(numbers, d_model, d_ff);
    weights.shared_expert_gate = random_linear(numbers, d_model, 1, false);
    return weights;
}

inline LayerNormWeights random_norm(Numbers& numbers, std::size_t d_model, bool is_biased = true)
{
    LayerNormWeights weights{numbers.vector(d_model)};
    if (is_biased)
        weights.bias = numbers.vector(d_model);
    return weights;
}

inline EncoderLayerWeights random_encoder_layer(Numbers& numbers, std::size_t d_model = 6, std::size_t d_ff = 5,
                                                bool is_biased = true)
{
    MultiHeadWeights heads = random_heads(numbers, {.d_model = d_model,
                                                    .h_d_k = d_model,
                                                    .h_d_v = d_model,
                                                    .d_memory = d_model,
                                                    .d_value = d_model,
                                                    .is_biased = is_biased});
    FeedForwardWeights feed_forward = random_feed_forward(numbers, d_model, d_ff, is_biased);
    LayerNormWeights norm1 = random_norm(numbers, d_model, is_biased);
    return {std::move(heads), std::move(feed_forward), std::move(norm1), random_norm(numbers, d_model, is_biased)};
}

/// A cell with so many gates.
inline RecurrentCellWeights random_cell(Numbers& numbers, std::size_t d_in, std::size_t d_hidden, std::size_t gates,
                                        bool is_biased = true)
{
    LinearWeights input = random_linear(numbers, d_in, gates * d_hidden, is_biased);
    return {std::move(input), random_linear(numbers, d_hidden, gates * d_hidden, is_biased)};
}

/// Layers of one direction or of both.
inline RecurrentWeights random_recurrent(Numbers& numbers, std::size_t d_in, std::size_t d_hidden, std::size_t gates,
                                         std::size_t layers = 1, bool is_both = false, bool is_biased = true)
{
    RecurrentWeights weights;
    for (std::size_t i = 0; i < layers; ++i) {
        weights.layers.emplace_back().forward = random_cell(numbers, d_in, d_hidden, gates, is_biased);
        if (is_both)
            weights.layers.back().backward = random_cell(numbers, d_in, d_hidden, gates, is_biased);
        d_in = is_both ? 2 * d_hidden : d_hidden;
    }
    return weights;
}

// --------------------------------------------------------------------------------------------------------- once by hand

inline Matrix linear_by_hand(const Matrix& x, const LinearWeights& weights)
{
    Matrix result = product_by_hand(x, weights.weight);
    for (std::size_t i = 0; weights.bias && i < result.shape(0); ++i)
        for (std::size_t j = 0; j < result.shape(1); ++j)
            result(i, j) += (*weights.bias)(j);
    return result;
}

inline Matrix norm_by_hand(const Matrix& x, const LayerNormWeights& weights, double epsilon)
{
    const std::size_t d = x.shape(1);
    Matrix result(x.shape());
    for (std::size_t i = 0; i < x.shape(0); ++i) {
        double mean = 0, variance = 0;
        for (std::size_t j = 0; j < d; ++j)
            mean += x(i, j) / static_cast<double>(d);
        for (std::size_t j = 0; j < d; ++j)
            variance += (x(i, j) - mean) * (x(i, j) - mean) / static_cast<double>(d);
        for (std::size_t j = 0; j < d; ++j)
            result(i, j) = (x(i, j) - mean) / std::sqrt(variance + epsilon) * weights.gain(j) +
                           (weights.bias ? (*weights.bias)(j) : 0.0);
    }
    return result;
}

/// Options of attention by hand.
struct ByHand {
    std::optional<Mask> mask = {};
    std::optional<Matrix> bias = {};
    std::optional<double> scale = {};
};

inline Attention attention_by_hand(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                   const ByHand& options = {})
{
    const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(keys.shape(1))));
    Matrix weights(Matrix::shape_type{queries.shape(0), keys.shape(0)}, 0.0);
    for (std::size_t i = 0; i < queries.shape(0); ++i) {
        double total = 0;
        for (std::size_t j = 0; j < keys.shape(0); ++j) {
            if (options.mask && !(*options.mask)(i, j))
                continue;
            double score = 0;
            for (std::size_t k = 0; k < keys.shape(1); ++k)
                score += queries(i, k) * keys(j, k);
            weights(i, j) = std::exp(score * scale + (options.bias ? (*options.bias)(i, j) : 0.0));
            total += weights(i, j);
        }
        for (std::size_t j = 0; total > 0 && j < keys.shape(0); ++j)
            weights(i, j) /= total;
    }
    return {product_by_hand(weights, values), weights};
}

/// Head by head, each with its own columns of the packed maps.
inline MultiHead heads_by_hand(const Matrix& x, const Matrix& memory, const Matrix& value_memory,
                               const MultiHeadWeights& weights, std::size_t heads, const ByHand& options = {})
{
    const Matrix query = linear_by_hand(x, weights.query);
    const Matrix key = linear_by_hand(memory, weights.key);
    const Matrix value = linear_by_hand(value_memory, weights.value);
    const std::size_t d_k = query.shape(1) / heads, d_v = value.shape(1) / heads;
    MultiHead result;
    Matrix merged(Matrix::shape_type{x.shape(0), heads * d_v});
    for (std::size_t head = 0; head < heads; ++head) {
        const Attention attention = attention_by_hand(columns_by_hand(query, head * d_k, (head + 1) * d_k),
                                                      columns_by_hand(key, head * d_k, (head + 1) * d_k),
                                                      columns_by_hand(value, head * d_v, (head + 1) * d_v), options);
        for (std::size_t i = 0; i < merged.shape(0); ++i)
            for (std::size_t j = 0; j < d_v; ++j)
                merged(i, head * d_v + j) = attention.context(i, j);
        result.weights.push_back(attention.weights);
    }
    result.output = weights.output ? linear_by_hand(merged, *weights.output) : merged;
    return result;
}

// ------------------------------------------------------------------------------------------------ options with tensors

/// Everything that heads take besides tokens and weights.
struct Heads {
    std::size_t heads = 1;
    OptionalMask mask = {};
    OptionalBias bias = {};
    std::optional<double> scale = {};
    HeadPositions positions = HeadPositions::none;
    RotaryOptions rotary = {};

    MultiHeadOptions plain() const { return {.heads = heads, .scale = scale}; }
    MultiHeadOptions placed() const
    {
        return {.heads = heads, .scale = scale, .positions = positions, .rotary = rotary};
    }
};

template <Sequence T>
MultiHeadOf<T> attend(const T& x, const MultiHeadWeights& weights, const Heads& heads = {}, const Trace& trace = {})
{
    if (heads.positions != HeadPositions::none || weights.key.weight.shape(1) != weights.query.weight.shape(1))
        return multi_head_attention(x, weights, masked(heads.placed(), heads.mask, heads.bias), trace);
    return multi_head_attention(x, weights, masked(heads.plain(), heads.mask, heads.bias), trace);
}

template <Sequence T>
MultiHeadOf<T> attend(const T& x, const T& memory, const MultiHeadWeights& weights, const Heads& heads = {},
                      const Trace& trace = {})
{
    if (heads.positions != HeadPositions::none)
        return multi_head_attention(Sources(x, memory), weights, masked(heads.placed(), heads.mask, heads.bias), trace);
    return multi_head_attention(Sources(x, memory), weights, masked(heads.plain(), heads.mask, heads.bias), trace);
}

template <Sequence T>
MultiHeadOf<T> attend(const T& x, const T& memory, const T& value_memory, const MultiHeadWeights& weights,
                      const Heads& heads = {}, const Trace& trace = {})
{
    if (heads.positions != HeadPositions::none)
        return multi_head_attention(Sources(x, memory, value_memory), weights,
                                    masked(heads.placed(), heads.mask, heads.bias), trace);
    return multi_head_attention(Sources(x, memory, value_memory), weights,
                                masked(heads.plain(), heads.mask, heads.bias), trace);
}

/// Everything that encoders and decoders take besides tokens and weights.
struct Layers : EncoderOptions {
    OptionalMask mask = {};
    OptionalMask memory_mask = {};
};

template <Sequence T>
T encode(const T& x, const EncoderLayerWeights& weights, const Layers& layers = {}, const Trace& trace = {})
{
    return encoder_layer(x, weights, masked(layers, layers.mask), trace);
}

template <Sequence T>
T encode(const T& x, const EncoderWeights& weights, const Layers& layers = {}, const Trace& trace = {})
{
    return encoder(x, weights, masked(layers, layers.mask), trace);
}

} // namespace attn::test
