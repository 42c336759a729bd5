// Multi-head latent attention.

#include "all_modules.hpp"
#include "shared.hpp"

#include "attn/files/weights/latent_attention.hpp"

#include <memory>

namespace attn::cli {
namespace {

struct LatentAttentionFlags {
    MultiHeadOptions options = {.positions = HeadPositions::rotary, .norm = {.epsilon = 1e-6}};
    std::optional<Causal> causal = {};
    bool is_absorbed = false;

    std::vector<Flag> flags()
    {
        return {
            heads_flag(options.heads),
            scale_flag(options.scale),
            mask_flag(causal),
            rotary_base_flag(options.rotary),
            rotary_layout_flag(options.rotary.layout),
            rotary_scaling_flag(options.rotary.scaling),
            {"--epsilon", "E", number(options.norm.epsilon, NumberRange::from_zero).like("0.5"),
             "of the norms of the latents, inside the root"},
            {"--absorbed", "", is_absorbed,
             "attend to the latents as they are: the maps to keys and values are absorbed into queries and context"}};
    }
};

/// What a cache holds, where it is given: both parts or none.
template <Sequence T>
PastLatents<T> past_of(const Inputs& inputs)
{
    if (inputs.has("past_latent") != inputs.has("past_shared_key"))
        throw Error("past_latent and past_shared_key belong together: give both, or none where there is no past");
    if (!inputs.has("past_latent"))
        return std::nullopt;
    return LatentCacheOf<T>{inputs.get<T>("past_latent"), inputs.get<T>("past_shared_key")};
}

template <Sequence T>
void attend_to_latents(const LatentAttentionFlags& flags, const T& x, const ModuleRun& run)
{
    const PastLatents<T> past = past_of<T>(run.inputs);
    const std::size_t earlier = past ? past->latent.shape(token_axis<T>) : 0;
    PairAxes axes = pair_axes(x, x, flags.options.heads);
    axes.keys += earlier;
    const OptionalMask mask = joined_mask(axes, flags.causal, run, {}, earlier);
    const OptionalBias bias = share(run.inputs.label("bias"), run.inputs.bias("mask", axes), run.trace);
    const auto weights = run.load<LatentAttentionWeights>(d_model(x));
    const MultiHeadOptions options = masked(flags.options, {mask, bias});
    if (past && flags.is_absorbed)
        cached_absorbed_latent_attention(x, past, weights, options, run.trace);
    else if (past)
        cached_latent_attention(x, past, weights, options, run.trace);
    else if (flags.is_absorbed)
        absorbed_latent_attention(x, weights, options, run.trace);
    else
        latent_attention(x, weights, options, run.trace);
}

} // namespace

Module latent_attention_module()
{
    const auto flags = std::make_shared<LatentAttentionFlags>();
    return {.name = "latent-attention",
            .summary =
                "multi-head latent attention of DeepSeek-V2 and V3: keys and values are made from a small latent",
            .inputs = {required("x", "(b,) n, d_model"),
                       {"past_latent", "(b,) past, d_c", "of tokens before those of x, after the norm"},
                       {"past_shared_key", "(b,) past, d_r", "of tokens before those of x, rotated"},
                       mask_input(),
                       lengths_input(),
                       bias_input()},
            .what_weights = "q_proj, or q_a_proj, q_a_layernorm and q_b_proj; kv_a_proj_with_mqa, kv_a_layernorm, "
                            "kv_b_proj, o_proj",
            .flags = flags->flags(),
            .run = with_tokens(
                "x", [flags]<Sequence T>(const T& x, const ModuleRun& run) { attend_to_latents(*flags, x, run); })};
}

} // namespace attn::cli
