// What an encoder is made of, and encoders.

#include "families.hpp"

#include "attn/weights/state_dict.hpp"

namespace attn {
namespace {

template <Sequence T>
EncoderOptions encoder_options(const T& x, const ModuleRun& run)
{
    const ModuleOptions& options = run.options;
    EncoderOptions of_encoder{.attention = multi_head_options(options),
                              .feed_forward = {.activation = options.activation},
                              .norm = {.epsilon = options.epsilon},
                              .placement = options.placement};
    if (options.final_epsilon)
        of_encoder.final_norm = {.epsilon = *options.final_epsilon};
    of_encoder.attention.mask = mask_for(x, x, run);
    return of_encoder;
}

/// Calls a function with the tokens x, of one sequence or of a batch.
template <class Work>
void with_tokens(const ModuleRun& run, const Work& work)
{
    const std::string_view label = "x[(b,) n, d_model]";
    if (run.inputs.is_batch("x"))
        work(run.trace(label, "", run.inputs.get<Tensor3>("x")));
    else
        work(run.trace(label, "", run.inputs.get<Matrix>("x")));
}

} // namespace

void run_feed_forward(const ModuleRun& run)
{
    with_tokens(run, [&](const auto& x) {
        feed_forward(x, load_weights<FeedForwardWeights>(run.weights, {{"d_model", features(x)}}),
                     {.activation = run.options.activation}, run.trace);
    });
}

void run_layer_norm(const ModuleRun& run)
{
    with_tokens(run, [&](const auto& x) {
        layer_norm(x, load_weights<LayerNormWeights>(run.weights, {{"d_model", features(x)}}),
                   {.epsilon = run.options.epsilon}, run.trace);
    });
}

void run_encoder_layer(const ModuleRun& run)
{
    with_tokens(run, [&](const auto& x) {
        const EncoderOptions options = encoder_options(x, run);
        encoder_layer(x, load_weights<EncoderLayerWeights>(run.weights, {{"d_model", features(x)}}), options,
                      run.trace);
    });
}

void run_encoder(const ModuleRun& run)
{
    with_tokens(run, [&](const auto& x) {
        const EncoderOptions options = encoder_options(x, run);
        encoder(x,
                load_weights<EncoderWeights>(run.weights, {{"d_model", features(x)}}, {.layers = run.options.layers}),
                options, run.trace);
    });
}

} // namespace attn
