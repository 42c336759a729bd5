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

/// One sequence of a batch, under its name and its number.
Matrix sequence_of(const Tensor3& batch, std::string_view name, std::size_t which, const Trace& trace)
{
    return trace(
        std::string(name) + "[n, d]", [&] { return std::string(name) + "[" + std::to_string(which) + "]"; },
        Matrix(xt::view(batch, which, xt::all(), xt::all())));
}

/// The band is the same for every sequence, what stands on it is not: one after the other, each in a scope of its own.
void attend_in_turn(const ModuleRun& run)
{
    const Tensor3 queries = run.trace("queries[b, n, d_k]", "", run.inputs.get<Tensor3>("queries"));
    const Tensor3 keys = run.trace("keys[b, n, d_k]", "", run.inputs.get<Tensor3>("keys"));
    const Tensor3 values = run.trace("values[b, n, d_v]", "", run.inputs.get<Tensor3>("values"));
    expect_agreement("restricted_attention", "b", {"queries", queries, 0}, {"keys", keys, 0});
    expect_agreement("restricted_attention", "b", {"keys", keys, 0}, {"values", values, 0});
    Tensor3 output(Tensor3::shape_type{values.shape(0), values.shape(1), values.shape(2)});
    std::string parts;
    for (std::size_t b = 0; b < queries.shape(0); ++b) {
        const Trace trace = run.trace.scope("sequence", b);
        const Matrix of_query = sequence_of(queries, "queries", b, trace), of_key = sequence_of(keys, "keys", b, trace);
        const Matrix of_value = sequence_of(values, "values", b, trace);
        xt::view(output, b, xt::all(), xt::all()) =
            restricted_attention(of_query, of_key, of_value, restricted_options(run.options), trace).context;
        parts += "sequence." + std::to_string(b) + ".context[None, :, :], ";
    }
    run.trace("output[b, n, d_v]", "concat(" + parts + "axis=0)", output);
}

template <Sequence T>
void talk(const ModuleRun& run)
{
    const T x = run.trace("x[(b,) n, d_model]", "", run.inputs.get<T>("x"));
    const std::optional<AnyMask> mask = mask_for(x, x, run);
    talking_heads_attention(x, load_weights<TalkingHeadsWeights>(run.weights, {{"d_model", features(x)}}),
                            {.mask = mask, .scale = run.options.scale}, run.trace);
}

} // namespace

void run_restricted_attention(const ModuleRun& run)
{
    if (run.inputs.is_batch("queries")) {
        attend_in_turn(run);
        return;
    }
    const Matrix queries = run.trace("queries[n, d_k]", "", run.inputs.get<Matrix>("queries"));
    const Matrix keys = run.trace("keys[n, d_k]", "", run.inputs.get<Matrix>("keys"));
    const Matrix values = run.trace("values[n, d_v]", "", run.inputs.get<Matrix>("values"));
    run.trace("output[n, d_v]", "context",
              restricted_attention(queries, keys, values, restricted_options(run.options), run.trace).context);
}

void run_talking_heads_attention(const ModuleRun& run)
{
    run.inputs.is_batch("x") ? talk<Tensor3>(run) : talk<Matrix>(run);
}

} // namespace attn
