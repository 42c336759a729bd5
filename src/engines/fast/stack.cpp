#include "stack.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/layers/activation.hpp"
#include "expect.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace attn::fast {
namespace {

std::string number(std::size_t size) { return std::to_string(size); }

void expect_equal(std::string_view function, std::string_view letter, std::string_view left, std::size_t a,
                  std::string_view right, std::size_t b)
{
    if (a != b)
        throw ShapeError(function, ": ", left, " of ", number(a), " and ", right, " of ", number(b), " must agree in ",
                         letter);
}

void expect_heads(std::string_view function, const char* of, std::size_t columns, std::size_t heads)
{
    if (heads == 0 || columns == 0 || columns % heads != 0)
        throw ShapeError(function, ": the ", number(columns), " columns of the ", of,
                         " weights can't be divided evenly among ", number(heads), " heads");
}

void expect_kernel(std::string_view function, Activation activation)
{
    if (computes(activation))
        return;
    std::string expected;
    for (const Activation other : enumerators<Activation>)
        if (computes(other))
            expected += (expected.empty() ? "" : ", ") + std::string(name_of(other));
    throw Error(function, ": there is no kernel of the activation ", name_of(activation), ", expected one of ",
                expected);
}

} // namespace

void expect_fit(std::string_view function, std::size_t d_model, std::size_t d_memory, const AttentionMaps& maps,
                std::size_t heads)
{
    expect_equal(function, "d_model", "tokens", d_model, "query weights", maps.query.d_in());
    expect_equal(function, "d_memory", "keys and values", d_memory, "key weights", maps.key_value.d_in());
    expect_heads(function, "query", maps.query.d_out(), heads);
    const std::size_t d_k = maps.query.d_out() / heads, keys = maps.key_columns(), groups = keys / d_k;
    if (groups == 0 || keys % d_k != 0 || heads % groups != 0)
        throw ShapeError(function, ": the ", number(keys), " columns of the key weights are no key/value heads of ",
                         number(d_k), " columns, among which ", number(heads), " heads can be divided evenly");
    expect_heads(function, "value", maps.value_columns(), groups);
    expect_equal(function, "h d_v", "heads", maps.value_columns() / groups * heads, "output weights",
                 maps.output.d_in());
    expect_equal(function, "d_model", "output weights", maps.output.d_out(), "tokens", d_model);
}

void expect_fit(std::string_view function, std::size_t d_model, const FeedForwardMaps& maps, Activation activation)
{
    expect_kernel(function, activation);
    expect_equal(function, "d_model", "tokens", d_model, "hidden weights", maps.hidden.d_in());
    expect_equal(function, "d_ff", "hidden weights", maps.hidden.parts()[0].columns, "output weights", maps.d_ff());
    expect_equal(function, "d_ff", "hidden weights", maps.hidden.parts().back().columns, "output weights", maps.d_ff());
    expect_equal(function, "d_model", "output weights", maps.output.d_out(), "tokens", d_model);
}

void expect_fit(std::string_view function, std::size_t d_model, const Norm& norm)
{
    expect_equal(function, "d_model", "tokens", d_model, "gain", norm.gain.size());
    if (!norm.bias.empty())
        expect_equal(function, "d_model", "tokens", d_model, "bias", norm.bias.size());
}

View begin_tokens(std::string_view function, const Tokens<const float>& x, const Tokens<float>& output,
                  const Trace& trace)
{
    expect_equal(function, "d_model", "x", x.d, "output", output.d);
    expect_equal(function, "n", "x", x.n, "output", output.n);
    expect_equal(function, "b", "x", x.sequences(), "output", output.sequences());
    expect_numbers(function, "x", x);
    expect_numbers(function, "output", output);
    if (x.numbers != output.numbers)
        std::copy_n(x.numbers, x.rows() * x.d, output.numbers);
    const View tokens = view(output.numbers, x.rows(), x.d);
    record_input(trace, "x[(b,) n, d_model]", {x.n, x.batch}, tokens);
    return tokens;
}

Rotation rotation_of(const RotaryOptions& options, std::size_t earlier, std::size_t n, std::size_t d, Buffer& buffer,
                     const Trace& trace)
{
    const auto& [base, layout, given_first, features, scaling, given_positions, given_frequencies, axes] = options;
    if (given_positions)
        throw Error(
            "attn::fast: tokens are rotated one after the other, expected no positions among the rotary options");
    if (given_frequencies || axes)
        throw Error(
            "attn::fast: there is no kernel of frequencies that are given, nor of positions along several axes, "
            "expected neither among the rotary options");
    if (features && *features != d)
        throw Error("attn::fast: there is no kernel that rotates ", number(*features), " of ", number(d),
                    " features, expected no features among the rotary options");
    if (name_of(scaling) != "default")
        throw Error("attn::fast: there is no kernel of the rotary scaling ", name_of(scaling),
                    ", expected none among the rotary options");
    if (d % 2 != 0)
        throw ShapeError("fast: rotary positions need heads of an even number of features, found ", number(d));
    const std::size_t pairs = d / 2, first = given_first + earlier;
    const View cosines = view(buffer.grow(2 * n * pairs), n, pairs), sines = view(cosines.data + n * pairs, n, pairs);
    for (std::size_t pair = 0; pair < pairs; ++pair) {
        const double frequency = std::pow(base, -2 * static_cast<double>(pair) / static_cast<double>(d));
        for (std::size_t i = 0; i < n; ++i) {
            cosines.row(i)[pair] = static_cast<float>(std::cos(static_cast<double>(first + i) * frequency));
            sines.row(i)[pair] = static_cast<float>(std::sin(static_cast<double>(first + i) * frequency));
        }
    }
    const auto of_angles = [&](const char* function) {
        return std::string(function) + "(outer(arange(" + number(n) + ") + " + number(first) + ", " +
               exact_text(options.base) + " ** (-2 * arange(" + number(pairs) + ") / " + number(d) + ")))";
    };
    record(
        trace, "cosines[n, pairs]", [&] { return of_angles("cos"); }, {n}, cosines);
    record(
        trace, "sines[n, pairs]", [&] { return of_angles("sin"); }, {n}, sines);
    return {cosines.data, sines.data, n, d, layout == RotaryLayout::halves};
}

Scoring scoring_of(const MultiHeadOptions& options, const Masking& masking, Buffer& buffer)
{
    const auto& [heads, mask, bias, causal, scale, softcap, positions, rotary, norm_kind, norm, unit_epsilon,
                 temperature, places] = options;
    expect_no_scaled_queries("attn::fast", options);
    if (places)
        throw Error("attn::fast: tokens follow each other, expected no places among the options of attention");
    if (mask || bias)
        throw Error("attn::fast: a mask or a bias is among the options of attention, expected the mask as Masking, and "
                    "no bias");
    Scoring scoring{.mask = masking.mask, .causal = causal, .key_lengths = masking.key_lengths};
    if (scale)
        scoring.scale = static_cast<float>(*scale);
    if (softcap)
        scoring.softcap = static_cast<float>(*softcap);
    if (positions == HeadPositions::alibi) {
        float* const slopes = buffer.grow(heads);
        std::ranges::copy(alibi_slopes(heads), slopes);
        scoring.alibi_slopes = {slopes, heads};
    }
    return scoring;
}

SelfAttention::SelfAttention(const Tokens<const float>& x, const Masking& masking, const AttentionMaps& maps,
                             const MultiHeadOptions& options, Workspace& workspace, const Trace& trace)
    : sequences_{x.n, x.batch},
      maps_(maps),
      heads_(options.heads),
      workspace_(workspace),
      scoring_(scoring_of(options, masking, workspace.positions))
{
    if (options.positions == HeadPositions::rotary)
        rotation_ = rotation_of(options.rotary, 0, x.n, maps.query.d_out() / heads_, workspace.positions, trace);
}

void SelfAttention::of_layer(const AttentionMaps& maps, const View& x, const View& result, const Trace& inside) const
{
    const AttentionTask task{.heads = heads_,
                             .scoring = scoring_,
                             .rotation = rotation_ ? &*rotation_ : nullptr,
                             .queries = sequences_,
                             .keys = sequences_,
                             .key_value = matrix_in(workspace_.key_value, x.rows, maps.key_value.d_out())};
    attend(x, x, "x", maps, task, result, workspace_, inside);
}

StepOptions in_float32(StepOptions options)
{
    options.emplace_back("type", "float32");
    return options;
}

} // namespace attn::fast
