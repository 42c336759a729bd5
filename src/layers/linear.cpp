#include "attn/layers/linear.hpp"

#include "attn/ops/batch.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/shape.hpp"

#include <string>

namespace attn {
namespace {

std::string name_of(std::string_view label) { return parse_step_label(label).name; }

std::string mapping(const LinearWeights& weights, const LinearSteps& steps)
{
    const std::string product = std::string(steps.input) + " @ " + name_of(steps.weight);
    return weights.bias ? product + " + " + name_of(steps.bias) : product;
}

Matrix map_tokens(const Matrix& tokens, const LinearWeights& weights)
{
    const Matrix product = matmul(tokens, weights.weight);
    if (!weights.bias)
        return product;
    return product + *weights.bias;
}

template <Sequence T>
T map(const T& x, const LinearWeights& weights, const LinearSteps& steps, const Trace& trace)
{
    constexpr std::size_t features = std::same_as<T, Matrix> ? 1 : 2;
    expect_agreement("linear", "d_in", {steps.input, x, features}, {"weight", weights.weight, 0});
    if (weights.bias)
        expect_agreement("linear", "d_out", {"weight", weights.weight, 1}, {"bias", *weights.bias, 0});
    trace.input(steps.weight, weights.weight);
    if (weights.bias)
        trace.input(steps.bias, *weights.bias);
    return trace(
        steps.output, [&] { return mapping(weights, steps); },
        token_by_token(x, [&](const Matrix& tokens) { return map_tokens(tokens, weights); }));
}

} // namespace

Matrix linear(const Matrix& x, const LinearWeights& weights, const LinearSteps& steps, const Trace& trace)
{
    return map(x, weights, steps, trace);
}

Tensor3 linear(const Tensor3& x, const LinearWeights& weights, const LinearSteps& steps, const Trace& trace)
{
    return map(x, weights, steps, trace);
}

} // namespace attn
