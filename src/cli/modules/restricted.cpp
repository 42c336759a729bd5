// Attention to neighbours only, and talking heads.

#include "all_modules.hpp"
#include "shared.hpp"

#include "attn/files/weights/attention_variants.hpp"
#include "attn/reference/attention/restricted.hpp"

#include <memory>

namespace attn::cli {
namespace {

std::vector<Flag> restricted_flags(RestrictedOptions& options)
{
    Neighbourhood& neighbourhood = options.neighbourhood;
    constexpr std::size_t most = std::size_t{1} << 40;
    return {{"--radius", "R", whole_number(neighbourhood.radius, 0, most).like("2"),
             "neighbours are at most R places away"},
            {"--stride", "S", whole_number(neighbourhood.stride, 1, most).like("3"),
             "neighbours are any multiple of S places away; with --radius the union of both"},
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
            .run = with_tokens("queries", [options]<Sequence T>(const T& queries, const ModuleRun& run) {
                const T keys = run.input<T>("keys"), values = run.input<T>("values");
                restricted_attention(queries, keys, values, *options, run.trace);
                run.trace.alias("output", "context");
            })};
}

Module talking_heads_attention_module()
{
    const auto flags = std::make_shared<TalkingHeadsFlags>();
    return {.name = "talking-heads-attention",
            .summary = "multi-head attention whose heads are mixed before softmax and after it",
            .inputs = {required("x", "(b,) n, d_model"), mask_input("mask", "n, n", InputKind::mask), lengths_input()},
            .what_weights = "the state_dict of nn.MultiheadAttention, talking_scores and talking_weights",
            .flags = {scale_flag(flags->scale), mask_flag(flags->causal)},
            .run = with_tokens("x", [flags](const auto& x, const ModuleRun& run) {
                const auto weights = run.load<TalkingHeadsWeights>(d_model(x));
                const PairAxes axes = pair_axes(x, x, weights.scores.shape(1));
                talking_heads_attention(
                    x, weights, {.mask = joined_mask(axes, flags->causal, run), .scale = flags->scale}, run.trace);
            })};
}

} // namespace attn::cli
