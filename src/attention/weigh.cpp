#include "attn/attention/weigh.hpp"

#include "attn/ops/matmul.hpp"
#include "attn/ops/softmax.hpp"
#include "attn/shape.hpp"

#include <limits>

namespace attn {
namespace {

void expect_fit(const Matrix& scores, std::string_view name, const Matrix& values, const WeighingOptions& options)
{
    expect_agreement("attention", "m", {name, scores, 1}, {"values", values, 0});
    if (options.mask) {
        expect_agreement("attention", "n", {name, scores, 0}, {"mask", *options.mask, 0});
        expect_agreement("attention", "m", {name, scores, 1}, {"mask", *options.mask, 1});
    }
}

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

Matrix normalize(const Matrix& scores, Normalization normalization)
{
    return normalization == Normalization::softmax ? softmax(scores) : scores;
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
    expect_fit(scores, name, values, options);
    const Normalization normalization = options.normalization;

    // Forbidden pairs leave before softmax, not after: what stays must share all of the weight.
    Matrix allowed = scores;
    std::string_view allowed_name = name;
    if (options.mask) {
        trace.input("mask[n, m]", *options.mask);
        allowed = trace(
            "masked[n, m]", [&] { return masking(name, normalization); },
            Matrix(xt::where(*options.mask, scores, forbidden(normalization))));
        allowed_name = "masked";
    }

    // The larger a score, the larger its share.
    Matrix weights = trace(
        "weights[n, m]", [&] { return normalizing(allowed_name, normalization); }, normalize(allowed, normalization));

    // Take each value in that proportion.
    Matrix context = trace("context[n, d_v]", "weights @ values", matmul(weights, values));
    return {std::move(context), std::move(weights)};
}

} // namespace attn
