// Attention to neighbours only, and heads that talk.

#include "families.hpp"

#include "attn/attention/restricted.hpp"
#include "attn/shape.hpp"
#include "attn/weights/state_dict.hpp"

namespace attn {
namespace {

RestrictedOptions restricted_options(const ModuleOptions& options)
{
    return {.neighbourhood = {.radius = options.radius,
                              .stride = options.stride,
                              .side = options.causal ? Side::causal : Side::both},
            .scale = options.scale};
}

template <Sequence T>
void attend_to_neighbours(const ModuleRun& run)
{
    const T queries = run.trace("queries[(b,) n, d_k]", "", run.inputs.get<T>("queries"));
    const T keys = run.trace("keys[(b,) n, d_k]", "", run.inputs.get<T>("keys"));
    const T values = run.trace("values[(b,) n, d_v]", "", run.inputs.get<T>("values"));
    restricted_attention(queries, keys, values, restricted_options(run.options), run.trace);
    run.trace.alias("output", "context");
}

template <Sequence T>
void talk(const ModuleRun& run)
{
    const T x = run.trace("x[(b,) n, d_model]", "", run.inputs.get<T>("x"));
    const std::optional<AnyMask> mask = mask_for(x, x, run);
    talking_heads_attention(x, mask, load_weights<TalkingHeadsWeights>(run.weights, {{"d_model", features(x)}}),
                            {.scale = run.options.scale}, run.trace);
}

} // namespace

void run_restricted_attention(const ModuleRun& run)
{
    run.inputs.is_batch("queries") ? attend_to_neighbours<Tensor3>(run) : attend_to_neighbours<Matrix>(run);
}

void run_talking_heads_attention(const ModuleRun& run)
{
    run.inputs.is_batch("x") ? talk<Tensor3>(run) : talk<Matrix>(run);
}

} // namespace attn
