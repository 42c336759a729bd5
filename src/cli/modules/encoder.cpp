// What an encoder is made of, and encoders.

#include "families.hpp"
#include "shared.hpp"

#include <memory>

namespace attn {
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
    return {.name = "encoder-layer",
            .summary = "nn.TransformerEncoderLayer",
            .inputs = {tokens(), mask_input("mask", "n, n"), lengths_input()},
            .flags = flags->of_layer(),
            .run = with_tokens("x", [flags](const auto& x, const ModuleRun& run) {
                const std::optional<AnyMask> mask =
                    joined_mask(x, x, flags->causal, run, flags->options.attention.heads);
                const auto weights = run.load<EncoderLayerWeights>(d_model(x));
                encoder_layer(x, mask, weights, flags->options, run.trace);
            })};
}

Module encoder_module()
{
    const auto flags = std::make_shared<StackFlags>();
    return {.name = "encoder",
            .summary = "nn.TransformerEncoder",
            .inputs = {tokens(), mask_input("mask", "n, n"), lengths_input()},
            .flags = flags->of_layer() + flags->of_stack(),
            .run = with_tokens("x", [flags](const auto& x, const ModuleRun& run) {
                const std::optional<AnyMask> mask =
                    joined_mask(x, x, flags->causal, run, flags->options.attention.heads);
                const auto weights = run.load<EncoderWeights>(d_model(x), {.layers = flags->layers});
                expect_final_norm(*flags, weights);
                encoder(x, mask, weights, flags->all_options(), run.trace);
            })};
}

} // namespace attn
