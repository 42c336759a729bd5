#include "attn/attention/dot_product.hpp"

#include "attn/ops/matmul.hpp"
#include "attn/shape.hpp"

#include <charconv>
#include <cmath>

namespace attn {
namespace {

/// The shortest text that reads back as the same number.
std::string exactly(double number)
{
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

double scale_of(const AttentionOptions& options, const Matrix& keys)
{
    return options.scale.value_or(1.0 / std::sqrt(static_cast<double>(keys.shape(1))));
}

std::string scaling(const AttentionOptions& options)
{
    return options.scale ? "scores * " + exactly(*options.scale) : "scores / sqrt(keys.shape[1])";
}

} // namespace

Attention dot_product_attention(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                const WeighingOptions& options, const Trace& caller)
{
    expect_agreement("dot_product_attention", "d_k", {"queries", queries, 1}, {"keys", keys, 1});
    expect_agreement("dot_product_attention", "m", {"keys", keys, 0}, {"values", values, 0});
    const Trace trace = caller.module("dot_product_attention", [&] { return describe(options); });
    trace.input("queries[n, d_k]", queries);
    trace.input("keys[m, d_k]", keys);
    trace.input("values[m, d_v]", values);

    // Compare every query with every key.
    const Matrix scores = trace("scores[n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));

    return weigh_values(scores, "scores", values, options, trace);
}

Attention scaled_dot_product_attention(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                       const AttentionOptions& options, const Trace& caller)
{
    expect_agreement("scaled_dot_product_attention", "d_k", {"queries", queries, 1}, {"keys", keys, 1});
    expect_agreement("scaled_dot_product_attention", "m", {"keys", keys, 0}, {"values", values, 0});
    const Trace trace = caller.module("scaled_dot_product_attention", [&] {
        return StepOptions{{"mask", options.mask ? "given" : "none"},
                           {"scale", options.scale ? exactly(*options.scale) : "1/sqrt(d_k)"}};
    });
    trace.input("queries[n, d_k]", queries);
    trace.input("keys[m, d_k]", keys);
    trace.input("values[m, d_v]", values);

    // Compare every query with every key.
    const Matrix scores = trace("scores[n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));

    // Keep the comparison's size independent of d_k.
    const Matrix scaled = trace(
        "scaled[n, m]", [&] { return scaling(options); }, Matrix(scores * scale_of(options, keys)));

    return weigh_values(scaled, "scaled", values, {.mask = options.mask}, trace);
}

} // namespace attn
