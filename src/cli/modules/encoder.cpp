// What an encoder is made of, and encoders.

#include "families.hpp"

#include "attn/weights/state_dict.hpp"

namespace attn {
namespace {

EncoderOptions encoder_options(const ModuleOptions& options)
{
    EncoderOptions of_encoder{.attention = grouped_query_options(options),
                              .feed_forward = {.activation = options.activation},
                              .norm = {.epsilon = options.epsilon},
                              .placement = options.placement};
    if (options.final_epsilon)
        of_encoder.final_norm = {.epsilon = *options.final_epsilon};
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
        feed_forward(x, feed_forward_weights(run.weights, features(x)), {.activation = run.options.activation},
                     run.trace);
    });
}

void run_layer_norm(const ModuleRun& run)
{
    with_tokens(run, [&](const auto& x) {
        layer_norm(x, layer_norm_weights(run.weights, features(x)), {.epsilon = run.options.epsilon}, run.trace);
    });
}

void run_encoder_layer(const ModuleRun& run)
{
    with_tokens(run, [&](const auto& x) {
        const std::optional<AnyMask> mask = mask_for(x, x, run);
        encoder_layer(x, mask, encoder_layer_weights(run.weights, features(x)), encoder_options(run.options),
                      run.trace);
    });
}

void run_encoder(const ModuleRun& run)
{
    with_tokens(run, [&](const auto& x) {
        const std::optional<AnyMask> mask = mask_for(x, x, run);
        encoder(x, mask, encoder_weights(run.weights, features(x), run.options.layers), encoder_options(run.options),
                run.trace);
    });
}

} // namespace attn
