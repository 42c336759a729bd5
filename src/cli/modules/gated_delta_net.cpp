// Gated DeltaNet.

#include "all_modules.hpp"
#include "shared.hpp"

#include "attn/files/weights/gated_delta_net.hpp"

#include <memory>

namespace attn::cli {
namespace {

/// What a cache holds, where it is given: both parts or none.
template <Sequence T>
PastOfDeltaNet<T> past_of_delta_net(const Inputs& inputs)
{
    if (inputs.has("past_conv_state") != inputs.has("past_recurrent_state"))
        throw Error(
            "past_conv_state and past_recurrent_state belong together: give both, or none where there is no past");
    if (!inputs.has("past_conv_state"))
        return std::nullopt;
    return GatedDeltaNetCacheOf<T>{inputs.get<T>("past_conv_state"), inputs.get<HeadStates<T>>("past_recurrent_state")};
}

template <Sequence T>
void follow_states(const GatedDeltaNetOptions& options, const T& x, const ModuleRun& run)
{
    const files::NamedArrays arrays = files::delta_net_unpacked(run.arrays, options.key_heads);
    const auto weights = run.list(files::load_weights<GatedDeltaNetWeights>(arrays, d_model(x)));
    gated_delta_net(x, past_of_delta_net<T>(run.inputs), weights, options, run.trace);
}

} // namespace

Module gated_delta_net_module()
{
    const auto options = std::make_shared<GatedDeltaNetOptions>();
    return {
        .name = "gated-delta-net",
        .summary = "linear attention of Qwen3-Next: each head has a state that is changed by the gated delta rule",
        .inputs = {required("x", "(b,) n, d_model"),
                   {"past_conv_state", "(b,) width - 1, d_mixed", "the last tokens before x, before the convolution"},
                   {"past_recurrent_state", "(b,) h, d_k, d_v", "each head's state before x (default: zeros)"}},
        .what_weights = "in_proj_qkvz and in_proj_ba, or in_proj_qkv, in_proj_z, in_proj_b and in_proj_a; conv1d, "
                        "dt_bias, A_log, norm, out_proj",
        .flags = {{"--key-heads", "G", whole_number(options->key_heads, 1, std::size_t{1} << 20).like("1"),
                   "queries and keys have G heads, each for several heads of values (default: as many, where no maps "
                   "are packed)"},
                  {"--chunk", "N", whole_number(options->chunk, 1, std::size_t{1} << 20).like("2"),
                   "compute N tokens at a time by products of matrices (default: one after the other)"},
                  {"--epsilon", "E", number(options->norm.epsilon, NumberRange::from_zero).like("0.5"),
                   "of the norm, inside the root"}},
        .run = with_tokens(
            "x", [options]<Sequence T>(const T& x, const ModuleRun& run) { follow_states(*options, x, run); })};
}

} // namespace attn::cli
