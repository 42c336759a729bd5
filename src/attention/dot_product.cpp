#include "attn/attention/dot_product.hpp"

#include "attn/ops/matmul.hpp"
#include "attn/shape.hpp"

#include <cmath>

namespace attn {
namespace {

template <Sequence T>
constexpr std::size_t rows = std::same_as<T, Matrix> ? 0 : 1; // the axis of tokens; features follow

template <Sequence T>
void expect_fit(std::string_view function, const T& queries, const T& keys, const T& values)
{
    if constexpr (std::same_as<T, Tensor3>) {
        expect_agreement(function, "b", {"queries", queries, 0}, {"keys", keys, 0});
        expect_agreement(function, "b", {"keys", keys, 0}, {"values", values, 0});
    }
    expect_agreement(function, "d_k", {"queries", queries, rows<T> + 1}, {"keys", keys, rows<T> + 1});
    expect_agreement(function, "m", {"keys", keys, rows<T>}, {"values", values, rows<T>});
}

template <Sequence T>
void name_inputs(const T& queries, const T& keys, const T& values, const Trace& trace)
{
    trace.input("queries[(b,) n, d_k]", queries);
    trace.input("keys[(b,) m, d_k]", keys);
    trace.input("values[(b,) m, d_v]", values);
}

template <Sequence T>
AttentionOf<T> attend(const T& queries, const T& keys, const T& values, const WeighingOptions& options,
                      const Trace& caller)
{
    expect_fit("dot_product_attention", queries, keys, values);
    const Trace trace = caller.module("dot_product_attention", [&] { return describe(options); });
    name_inputs(queries, keys, values, trace);

    // Compare every query with every key.
    const T scores = trace("scores[(b,) n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));

    return weigh_values(scores, "scores", values, options, trace);
}

double scale_of(const AttentionOptions& options, std::size_t d_k)
{
    return options.scale.value_or(1.0 / std::sqrt(static_cast<double>(d_k)));
}

std::string scaling(const AttentionOptions& options)
{
    return options.scale ? "scores * " + exact_text(*options.scale) : "scores / sqrt(keys.shape[-1])";
}

StepOptions describe(const AttentionOptions& options)
{
    return {{"mask", options.mask ? "given" : "none"},
            {"bias", options.bias ? "given" : "none"},
            {"scale", options.scale ? exact_text(*options.scale) : "1/sqrt(d_k)"}};
}

template <Sequence T>
T biased_by(const Matrix& bias, const T& scaled)
{
    expect_agreement("scaled_dot_product_attention", "n", {"scores", scaled, rows<T>}, {"bias", bias, 0});
    expect_agreement("scaled_dot_product_attention", "m", {"scores", scaled, rows<T> + 1}, {"bias", bias, 1});
    return scaled + bias; // one bias for every sequence
}

template <Sequence T>
AttentionOf<T> attend_scaled(const T& queries, const T& keys, const T& values, const AttentionOptions& options,
                             const Trace& caller)
{
    expect_fit("scaled_dot_product_attention", queries, keys, values);
    const Trace trace = caller.module("scaled_dot_product_attention", [&] { return describe(options); });
    name_inputs(queries, keys, values, trace);

    // Compare every query with every key.
    const T scores = trace("scores[(b,) n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));

    // Keep the comparison's size independent of d_k.
    T scaled = trace(
        "scaled[(b,) n, m]", [&] { return scaling(options); }, T(scores * scale_of(options, keys.shape(rows<T> + 1))));
    if (!options.bias)
        return weigh_values(scaled, "scaled", values, {.mask = options.mask}, trace);

    // Prefer some places to others, whatever their keys say.
    trace.shared_input("bias[n, m]", *options.bias);
    const T biased = trace("biased[(b,) n, m]", "scaled + bias", biased_by(*options.bias, scaled));
    return weigh_values(biased, "biased", values, {.mask = options.mask}, trace);
}

} // namespace

Attention dot_product_attention(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                const WeighingOptions& options, const Trace& trace)
{
    return attend(queries, keys, values, options, trace);
}

BatchAttention dot_product_attention(const Tensor3& queries, const Tensor3& keys, const Tensor3& values,
                                     const WeighingOptions& options, const Trace& trace)
{
    return attend(queries, keys, values, options, trace);
}

Attention scaled_dot_product_attention(const Matrix& queries, const Matrix& keys, const Matrix& values,
                                       const AttentionOptions& options, const Trace& trace)
{
    return attend_scaled(queries, keys, values, options, trace);
}

BatchAttention scaled_dot_product_attention(const Tensor3& queries, const Tensor3& keys, const Tensor3& values,
                                            const AttentionOptions& options, const Trace& trace)
{
    return attend_scaled(queries, keys, values, options, trace);
}

} // namespace attn
