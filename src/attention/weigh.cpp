#include "attn/attention/weigh.hpp"

#include "attn/ops/matmul.hpp"
#include "attn/ops/softmax.hpp"
#include "attn/shape.hpp"

#include <limits>

namespace attn {
namespace {

/// What a forbidden score becomes: it must leave nothing behind once it is a weight.
double forbidden(Normalization normalization)
{
    return normalization == Normalization::softmax ? -std::numeric_limits<double>::infinity() : 0.0;
}

std::string masking(std::string_view name, Normalization normalization)
{
    return "where(mask, " + std::string(name) + (normalization == Normalization::softmax ? ", -inf)" : ", 0)");
}

std::string normalizing(std::string_view name, Normalization normalization)
{
    return normalization == Normalization::softmax ? "softmax(" + std::string(name) + ")" : std::string(name);
}

template <Sequence T>
T normalize(const T& scores, Normalization normalization)
{
    return normalization == Normalization::softmax ? softmax(scores) : scores;
}

template <Sequence T>
AttentionOf<T> weigh(const T& scores, std::string_view name, const T& values, const WeighingOptions& options,
                     const Trace& trace)
{
    constexpr std::size_t rows = std::same_as<T, Matrix> ? 0 : 1; // the axis of tokens
    expect_agreement("attention", "m", {name, scores, rows + 1}, {"values", values, rows});
    const Normalization normalization = options.normalization;

    // Forbidden pairs leave before softmax, not after: what stays must share all of the weight.
    T allowed = scores;
    std::string_view allowed_name = name;
    if (options.mask) {
        std::visit([&](const auto& mask) { trace.shared_input("mask[(b,) n, m]", mask); }, *options.mask);
        allowed = trace(
            "masked[(b,) n, m]", [&] { return masking(name, normalization); },
            apply_mask(*options.mask, scores, forbidden(normalization)));
        allowed_name = "masked";
    }

    // The larger a score, the larger its share.
    T weights = trace(
        "weights[(b,) n, m]", [&] { return normalizing(allowed_name, normalization); },
        normalize(allowed, normalization));

    // Take each value in that proportion.
    T context = trace("context[(b,) n, d_v]", "weights @ values", matmul(weights, values));
    return {std::move(context), std::move(weights)};
}

} // namespace

StepOptions describe(const WeighingOptions& options)
{
    return {{"mask", options.mask ? "given" : "none"},
            {"normalization", options.normalization == Normalization::softmax ? "softmax" : "none"}};
}

Attention weigh_values(const Matrix& scores, std::string_view name, const Matrix& values,
                       const WeighingOptions& options, const Trace& trace)
{
    return weigh(scores, name, values, options, trace);
}

BatchAttention weigh_values(const Tensor3& scores, std::string_view name, const Tensor3& values,
                            const WeighingOptions& options, const Trace& trace)
{
    return weigh(scores, name, values, options, trace);
}

} // namespace attn
