// What an encoder is made of, and encoders.

#include "all_modules.hpp"
#include "fast_layers.hpp"
#include "shared.hpp"

#include <memory>

namespace attn::cli {
namespace {

ModuleInput tokens() { return required("x", "(b,) n, d_model"); }

} // namespace

Module feed_forward_module()
{
    const auto options = std::make_shared<FeedForwardOptions>();
    return {.name = "feed-forward",
            .summary = "linear1, activation, linear2, for each token by itself",
            .inputs = {tokens()},
            .flags = {activation_flag(*options)},
            .run = with_tokens("x", [options](const auto& x, const ModuleRun& run) {
                feed_forward(x, run.load<FeedForwardWeights>(d_model(x)), *options, run.trace);
            })};
}

Module layer_norm_module()
{
    const auto options = std::make_shared<LayerNormOptions>();
    return {.name = "layer-norm",
            .summary = "nn.LayerNorm over the features of each token",
            .inputs = {tokens()},
            .flags = {epsilon_flag(*options)},
            .run = with_tokens("x", [options](const auto& x, const ModuleRun& run) {
                layer_norm(x, run.load<LayerNormWeights>(d_model(x)), *options, run.trace);
            })};
}

Module encoder_layer_module()
{
    const auto flags = std::make_shared<StackFlags>();
    const auto exactly = with_tokens("x", [flags](const auto& x, const ModuleRun& run) {
        const MaskAndBias mask = own_mask(x, flags->causal, run, flags->options.attention.heads);
        const auto weights = run.load<EncoderLayerWeights>(d_model(x));
        encoder_layer(x, weights, masked_layer(flags->options, mask), run.trace);
    });
    return {.name = "encoder-layer",
            .summary = "nn.TransformerEncoderLayer",
            .inputs = {tokens(), mask_input("mask", "n, n"), lengths_input()},
            .flags = flags->of_layer() + std::vector<Flag>{fast_flag(flags->is_fast, "fast::encoder_layer()")},
            .run = [flags, exactly](const ModuleRun& run) {
                flags->is_fast ? encode_layer_fast(flags->options, flags->causal, run) : exactly(run);
            }};
}

namespace {

EncoderWeights encoder_weights(const StackFlags& flags, const files::AxisSizes& sizes, const ModuleRun& run)
{
    auto weights = run.load<EncoderWeights>(sizes, {.layers = flags.layers});
    expect_final_norm(flags, weights);
    return weights;
}

} // namespace

Module encoder_module()
{
    const auto flags = std::make_shared<StackFlags>();
    const auto exactly = with_tokens("x", [flags](const auto& x, const ModuleRun& run) {
        const MaskAndBias mask = own_mask(x, flags->causal, run, flags->options.attention.heads);
        encoder(x, encoder_weights(*flags, d_model(x), run), masked_layer(flags->all_options(), mask), run.trace);
    });
    return {.name = "encoder",
            .summary = "nn.TransformerEncoder",
            .inputs = {tokens(), mask_input("mask", "n, n"), lengths_input()},
            .flags =
                flags->of_layer() + flags->of_stack() + std::vector<Flag>{fast_flag(flags->is_fast, "fast::encoder()")},
            .run = [flags, exactly](const ModuleRun& run) {
                if (!flags->is_fast)
                    return exactly(run);
                const files::AxisSizes sizes{{"d_model", run.inputs.shape("x").back()}};
                encode_fast(flags->all_options(), flags->causal, encoder_weights(*flags, sizes, run), run);
            }};
}

} // namespace attn::cli
