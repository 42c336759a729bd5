// Attention to neighbours only, and heads that talk.

#include "families.hpp"
#include "shared.hpp"

#include "attn/attention/restricted.hpp"
#include "attn/shape.hpp"
#include "attn/weights/state_dict.hpp"

#include <memory>

namespace attn {
namespace {

/// One sequence of a batch, under its name and its number.
Matrix sequence_of(const Tensor3& batch, std::string_view name, std::size_t which, const Trace& trace)
{
    return trace(
        std::string(name) + "[n, d]", [&] { return std::string(name) + "[" + std::to_string(which) + "]"; },
        Matrix(xt::view(batch, which, xt::all(), xt::all())));
}

void attend(const RestrictedOptions& options, const Matrix& queries, const ModuleRun& run)
{
    const Matrix keys = run.input<Matrix>("keys"), values = run.input<Matrix>("values");
    restricted_attention(queries, keys, values, options, run.trace);
    run.trace.alias("output", "context");
}

/// The neighbours are the same for every sequence: one sequence after the other, each in a scope of its own.
void attend(const RestrictedOptions& options, const Tensor3& queries, const ModuleRun& run)
{
    const Tensor3 keys = run.input<Tensor3>("keys"), values = run.input<Tensor3>("values");
    expect_agreement("restricted_attention", "b", {"queries", queries, 0}, {"keys", keys, 0});
    expect_agreement("restricted_attention", "b", {"keys", keys, 0}, {"values", values, 0});
    Tensor3 output(values.shape());
    std::string parts;
    for (std::size_t b = 0; b < queries.shape(0); ++b) {
        const Trace trace = run.trace.scope("sequence", b);
        const Matrix of_query = sequence_of(queries, "queries", b, trace), of_key = sequence_of(keys, "keys", b, trace);
        const Matrix of_value = sequence_of(values, "values", b, trace);
        xt::view(output, b, xt::all(), xt::all()) =
            restricted_attention(of_query, of_key, of_value, options, trace).context;
        parts += "sequence." + std::to_string(b) + ".context[None, :, :], ";
    }
    (void)run.trace("output[b, n, d_v]", "concat(" + parts + "axis=0)", output);
}

std::vector<Flag> restricted_flags(RestrictedOptions& options)
{
    Neighbourhood& neighbourhood = options.neighbourhood;
    constexpr std::size_t most = std::size_t{1} << 40;
    return {{"--radius", "R", whole_number(neighbourhood.radius, 0, most), "neighbours are at most R places away"},
            {"--stride", "S", whole_number(neighbourhood.stride, 1, most),
             "neighbours are a multiple of S places away, however far; with --radius the union of both"},
            {"--mask", "", one_of(neighbourhood.side, {{"causal", Side::causal}}), "no later neighbours"},
            scale_flag(options.scale)};
}

struct TalkingHeadsFlags {
    std::optional<double> scale = {};
    std::optional<Causal> causal = {};
};

} // namespace

Module restricted_attention_module()
{
    const auto options = std::make_shared<RestrictedOptions>();
    return {.name = "restricted-attention",
            .summary = "attention to the keys around each query only",
            .inputs = {required("queries", "(b,) n, d_k"), required("keys", "(b,) n, d_k"),
                       required("values", "(b,) n, d_v")},
            .weights = Weights::none,
            .flags = restricted_flags(*options),
            .check =
                [options](bool) {
                    if (!options->neighbourhood.radius && !options->neighbourhood.stride)
                        throw Error("which keys are neighbours? Give --radius, --stride, or both");
                },
            .run = with_tokens(
                "queries", [options](const auto& queries, const ModuleRun& run) { attend(*options, queries, run); })};
}

Module talking_heads_attention_module()
{
    const auto flags = std::make_shared<TalkingHeadsFlags>();
    return {.name = "talking-heads-attention",
            .summary = "multi-head attention whose heads are mixed before softmax and after it",
            .inputs = {required("x", "(b,) n, d_model"), mask_input("mask", "n, n"), lengths_input()},
            .what_weights = "the state_dict of nn.MultiheadAttention, talking_scores and talking_weights",
            .flags = {scale_flag(flags->scale), mask_flag(flags->causal)},
            .run = with_tokens("x", [flags](const auto& x, const ModuleRun& run) {
                const std::optional<AnyMask> mask = joined_mask(x, x, flags->causal, run);
                talking_heads_attention(x, mask, talking_heads_weights(run.weights, features(x)),
                                        {.scale = flags->scale}, run.trace);
            })};
}

} // namespace attn
