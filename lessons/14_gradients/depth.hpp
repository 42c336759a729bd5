#pragma once

// The gradient that reaches each layer of a stack of untrained layers.

#include "attn/core/recorder.hpp"
#include "attn/formula/gradient.hpp"
#include "attn/formula/scope.hpp"
#include "attn/reference/layers/encoder.hpp"
#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/terms.hpp"

#include <algorithm>
#include <cmath>

namespace attn {

/// The root of the sum of all squares.
inline double norm_of(const Matrix& x) { return std::sqrt(sum_all(Matrix(x * x))); }

/// The path of the step that a term is.
inline std::string path_of(const Term<Matrix>& x)
{
    return std::string(x.wording().path());
}

/// The gradient of a step in what formula::gradients() gave.
inline Matrix gradient_in(const Recording& back, const std::string& step)
{
    return from_array<Matrix>(
        back.steps[formula::StepNames(back).find("grad." + step).value()].value);
}

/// What stands around the blocks of a stack.
struct Recipe {
    enum class Norm { none, before, after };

    std::string_view name;
    bool residual;
    Norm norm;
};

inline constexpr Recipe recipes[] = {{"post", true, Recipe::Norm::after},
                                     {"pre", true, Recipe::Norm::before},
                                     {"residual_only", true, Recipe::Norm::none},
                                     {"norm_only", false, Recipe::Norm::after},
                                     {"neither", false, Recipe::Norm::none}};

inline Term<Matrix> normalized(const Term<Matrix>& tokens, const Trace& trace)
{
    const Vector gain = xt::ones<double>({tokens.shape(1)});
    return layer_norm(tokens, {gain}, {}, trace.scope("norm"));
}

/// One block of a stack: attention in even blocks, the feed-forward network in odd ones.
inline Term<Matrix> pass_block(const Term<Matrix>& x, const EncoderLayerWeights& weights,
                               const Recipe& recipe, const Trace& stack,
                               std::size_t number)
{
    const Trace trace = stack.scope("block", number), block = trace.scope("computed");
    //! [block]
    Term y = x;
    if (recipe.norm == Recipe::Norm::before)
        y = normalized(y, trace);
    y = number % 2 == 0
            ? multi_head_attention(y, weights.self_attention, {}, block).output
            : feed_forward(y, weights.feed_forward, {}, block);
    if (recipe.residual)
        y = trace("sum[n, d_model]", x + y);
    if (recipe.norm == Recipe::Norm::after)
        y = normalized(y, trace);
    //! [block]
    return y;
}

/// Weights as libraries draw them before training (Glorot and Bengio 2010): uniform, with
/// the variance 2 / (d_in + d_out).
inline LinearWeights glorot(RandomNumbers& numbers, std::size_t d_in, std::size_t d_out)
{
    const auto both = static_cast<double>(d_in + d_out);
    return {numbers.matrix(d_in, d_out, std::sqrt(6 / both))};
}

inline EncoderLayerWeights untrained_layer(RandomNumbers& numbers, std::size_t d,
                                           std::size_t d_ff)
{
    EncoderLayerWeights layer;
    for (LinearWeights* map : {&layer.self_attention.query, &layer.self_attention.key,
                               &layer.self_attention.value})
        *map = glorot(numbers, d, d);
    layer.self_attention.output = glorot(numbers, d, d);
    layer.feed_forward.hidden = glorot(numbers, d, d_ff);
    layer.feed_forward.output = glorot(numbers, d_ff, d);
    return layer;
}

/// How much of the tokens differs between them, as a share: 0 where all are the same row.
inline double spread_of(const Matrix& x)
{
    return norm_of(x - mean_along(x, 0)) / norm_of(x);
}

/// What was measured at each layer's input, and at the end of the stack: (layers + 1).
struct Reached {
    Vector norms;   ///< of the gradient
    Vector spreads; ///< of the tokens
};

/// Sends a gradient of norm 1 back from the end of a stack, whose numbers are drawn.
inline Reached send_through(std::size_t layers, const Recipe& recipe,
                            RandomNumbers numbers)
{
    constexpr std::size_t n = 8, d = 32, d_ff = 64;
    Matrix arriving = numbers.matrix(n, d);
    arriving /= norm_of(arriving);

    Recorder recorder;
    const Trace trace(recorder);
    Term tokens = trace.given("x[n, d_model]", numbers.matrix(n, d, std::sqrt(3)));
    std::vector<Term<Matrix>> inputs{tokens};
    for (std::size_t layer = 0; layer < layers; ++layer) {
        const EncoderLayerWeights weights = untrained_layer(numbers, d, d_ff);
        for (const std::size_t number : {2 * layer, 2 * layer + 1})
            tokens = pass_block(tokens, weights, recipe, trace, number);
        inputs.push_back(tokens);
    }
    if (recipe.norm == Recipe::Norm::before) // such a stack ends with one more norm
        tokens = normalized(tokens, trace);

    Reached reached{xt::zeros<double>({inputs.size()}),
                    xt::zeros<double>({inputs.size()})};
    //! [send]
    const Recording back = formula::gradients(
        recorder.recording(), {.of = path_of(tokens), .seed = to_array(arriving)});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        reached.norms(i) = norm_of(gradient_in(back, path_of(inputs[i])));
        reached.spreads(i) = spread_of(*inputs[i]);
    }
    //! [send]
    return reached;
}

/// The gradient at the first layer's input over that at the end.
inline double ratio_of(const Vector& norms) { return norms(0) / norms(norms.size() - 1); }

/// The ratios of several stacks, each drawn anew, from the least to the largest.
inline Vector sorted_ratios(std::size_t stacks, std::size_t layers, const Recipe& recipe)
{
    Vector ratios = xt::zeros<double>({stacks});
    for (std::size_t stack = 0; stack < stacks; ++stack)
        ratios(stack) =
            ratio_of(send_through(layers, recipe, RandomNumbers(stack)).norms);
    std::ranges::sort(ratios);
    return ratios;
}

} // namespace attn
