// The small parts of models, as modules of their own.

#include "all_modules.hpp"
#include "shared.hpp"

#include "attn/engines/train/loss.hpp"
#include "attn/reference/layers/activation.hpp"
#include "attn/reference/layers/embedding.hpp"
#include "attn/reference/layers/gated_feed_forward.hpp"
#include "attn/reference/layers/position.hpp"
#include "attn/reference/layers/rotary.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <memory>

namespace attn::cli {
namespace {

// ------------------------------------------------------------------------------------------------------------ softmax

template <Attending T>
void weigh(const T& scores, const ModuleRun& run, std::optional<Causal> causal)
{
    PairAxes axes{.queries = scores.shape(token_axis<T>), .keys = scores.shape(feature_axis<T>)};
    if constexpr (!std::same_as<T, Matrix>)
        axes.sequences = scores.shape(0);
    if constexpr (std::same_as<T, Tensor4>) {
        axes.heads = scores.shape(1);
        axes.has_heads = true;
    }
    const OptionalMask mask = joined_mask(axes, causal, run);
    if (!mask) {
        (void)run.trace("output[(b,) n, m]", "softmax(scores)", softmax(scores));
        return;
    }
    T masked = run.trace("masked[(b,) n, m]", "where(mask, scores, -inf)", apply_mask(*mask, scores, minus_infinity));
    (void)run.trace("output[(b,) n, m]", "softmax(masked)", softmax(std::move(masked)));
}

// ---------------------------------------------------------------------------------------------------------- positions

struct PositionFlags {
    std::optional<double> base = {};
    std::optional<SineLayout> layout = {};
    std::size_t first = 0;

    std::vector<Flag> flags()
    {
        return {
            {"--base", "B", number(base, NumberRange::above_zero).like("3"),
             "of sinusoidal positions: pair i of d features has the frequency B^(-2i/d) (default: 10000)"},
            {"--layout", "",
             one_of(layout, {{"interleaved", SineLayout::interleaved}, {"halves", SineLayout::halves}}).like("halves"),
             "of sinusoidal positions: sines and cosines alternating, or all sines first (default: interleaved)"},
            first_flag(first)};
    }

    void check(bool has_weights) const
    {
        if (has_weights && (base || layout))
            throw Error(base ? "--base" : "--layout",
                        " has no effect: learned positions, of --weights, are rows of a table");
    }
};

Matrix positions_of(const PositionFlags& flags, std::size_t n, std::size_t d, const ModuleRun& run)
{
    if (!run.arrays.empty())
        return learned_positions(run.load<EmbeddingWeights>({{"d_model", d}}).table, n, flags.first, run.trace);
    SinusoidalOptions options{.first = flags.first};
    options.base = flags.base.value_or(options.base);
    options.layout = flags.layout.value_or(options.layout);
    return sinusoidal_positions(n, d, options, run.trace);
}

template <Sequence T>
void place(const PositionFlags& flags, const T& x, const ModuleRun& run)
{
    const Matrix positions = positions_of(flags, x.shape(token_axis<T>), features(x), run);
    (void)run.trace("output[(b,) n, d]", "x + positions", T(x + positions)); // which begin again with each sequence
}

} // namespace

Module rms_norm_module()
{
    const auto options = std::make_shared<RmsNormOptions>();
    return {.name = "rms-norm",
            .summary = "nn.RMSNorm over the features of each token",
            .inputs = {required("x", "(b,) n, d_model")},
            .flags = {{"--epsilon", "E", number(options->epsilon, NumberRange::from_zero).like("0.5"),
                       "added to the mean square, inside the root"}},
            .run = with_tokens("x", [options](const auto& x, const ModuleRun& run) {
                rms_norm(x, run.load<RmsNormWeights>(d_model(x)), *options, run.trace);
            })};
}

Module softmax_module()
{
    const auto causal = std::make_shared<std::optional<Causal>>();
    return {.name = "softmax",
            .summary = "scores to weights: each row is positive and sums to 1",
            .inputs = {required("scores", "(b,) n, m", "or of heads, (b, h, n, m)"),
                       mask_input("mask", "n, m", InputKind::mask), lengths_input()},
            .weights = Weights::none,
            .flags = {mask_flag(*causal)},
            .run = with_heads("scores",
                              [causal](const auto& scores, const ModuleRun& run) { weigh(scores, run, *causal); })};
}

Module activation_module()
{
    const auto activation = std::make_shared<Activation>(Activation::relu);
    return {.name = "activation",
            .summary = "relu, gelu, silu, … of each feature",
            .inputs = {required("x", "(b,) n, d")},
            .weights = Weights::none,
            .flags = {{"--activation", "", one_of(*activation), "which function"}},
            .run = with_tokens("x", [activation](const auto& x, const ModuleRun& run) {
                (void)activate("output[(b,) n, d]", "x", x, *activation, run.trace);
            })};
}

Module gated_feed_forward_module()
{
    const auto options = std::make_shared<GatedFeedForwardOptions>();
    return {.name = "gated-feed-forward",
            .summary = "SwiGLU: gate_proj, up_proj, down_proj, for each token by itself",
            .inputs = {required("x", "(b,) n, d_model")},
            .what_weights = "gate_proj, up_proj and down_proj, as in the MLP of Hugging Face's Llama",
            .flags = gate_flags(*options),
            .run = with_tokens("x", [options](const auto& x, const ModuleRun& run) {
                gated_feed_forward(x, run.load<GatedFeedForwardWeights>(d_model(x)), *options, run.trace);
            })};
}

Module rotary_module()
{
    const auto options = std::make_shared<RotaryOptions>();
    return {.name = "rotary",
            .summary = "rotary positions: queries or keys of a head, rotated by their positions",
            .inputs = {required("x", "(b,) n, d", "or of heads, (b, h, n, d)")},
            .weights = Weights::none,
            .flags = {rotary_base_flag(*options), rotary_layout_flag(options->layout), first_flag(options->first),
                      rotary_features_flag(options->features), rotary_scaling_flag(options->scaling)},
            .run = with_heads("x", [options](const auto& x, const ModuleRun& run) { rotary(x, *options, run.trace); })};
}

Module positions_module()
{
    const auto flags = std::make_shared<PositionFlags>();
    return {.name = "positions",
            .summary = "adds a position embedding to each token: sines and cosines, or a row of a learned table",
            .inputs = {required("x", "(b,) n, d")},
            .weights = Weights::optional,
            .what_weights = "learned positions, weight (n_max, d), as nn.Embedding; sinusoidal without them",
            .flags = flags->flags(),
            .check = [flags](bool has_weights) { flags->check(has_weights); },
            .run = with_tokens("x", [flags](const auto& x, const ModuleRun& run) { place(*flags, x, run); })};
}

Module embedding_module()
{
    const auto scale = std::make_shared<std::optional<double>>();
    return {.name = "embedding",
            .summary = "nn.Embedding: a row of a table for each token",
            .inputs = {ids_input()},
            .what_weights = "the table, weight (vocabulary, d_model)",
            .flags = {{"--scale", "S", number(*scale).like("2"),
                       "factor of the rows, such as the root of d_model (default: none)"}},
            .run = with_ids([scale](const auto& ids, const ModuleRun& run) {
                look_up(ids, run.load<EmbeddingWeights>({}), *scale, run.trace);
            })};
}

Module cross_entropy_module()
{
    const auto options = std::make_shared<train::CrossEntropyOptions>();
    return {
        .name = "cross-entropy",
        .summary = "nn.CrossEntropyLoss: the mean of -log softmax(logits)[target]",
        .inputs = {required("logits", "(b,) n, vocabulary"),
                   {"targets", "(b,) n", "the right class of each row; -100 is not counted", true, InputKind::targets}},
        .weights = Weights::none,
        .flags = {{"--label-smoothing", "E", number(options->label_smoothing, NumberRange::from_zero).like("0.5"),
                   "so much of the target is spread evenly over all classes"}},
        .run = with_tokens("logits", [options]<Sequence T>(const T& logits, const ModuleRun& run) {
            using Targets = std::conditional_t<std::same_as<T, Matrix>, Integers, IntegerMatrix>;
            train::cross_entropy(logits, run.input<Targets>("targets"), *options, run.trace);
            run.trace.alias("output", "loss");
        })};
}

} // namespace attn::cli
