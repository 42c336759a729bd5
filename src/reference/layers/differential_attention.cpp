#include "attn/reference/layers/differential_attention.hpp"

#include "heads.hpp"

namespace attn {
namespace {

template <Sequence T>
void expect_fit(std::string_view function, const Sources<T>& from, const DifferentialAttentionWeights& weights,
                std::size_t heads)
{
    const auto& [maps, q1, k1, q2, k2, norm] = weights;
    expect_projectable(function, from, maps);
    expect_agreement(function, "h d_k", {"query weights", maps.query.weight, 1}, {"key weights", maps.key.weight, 1});
    if (!is_plain(maps, HeadPositions::none))
        throw Error(function, ": it takes plain maps, without norms of queries and keys or sinks, and without a gate");
    expect_even_split(function, "query weights", shape_of(maps.query.weight), heads);
    expect_even_split(function, "value weights", shape_of(maps.value.weight), heads);
    const std::size_t d_k = maps.query.weight.shape(1) / heads / 2;
    if (maps.query.weight.shape(1) != 2 * heads * d_k)
        throw ShapeError(function, ": query weights ", shape_of(maps.query.weight), " of ", heads,
                         " heads can't be halved: each head has two maps of d_k features");
    if (maps.output)
        expect_agreement(function, "h d_v", {"value weights", maps.value.weight, 1},
                         {"output weights", maps.output->weight, 0});
    for (const auto& [name, of_lambda] :
         {std::pair{"lambda_q1", &q1}, {"lambda_k1", &k1}, {"lambda_q2", &q2}, {"lambda_k2", &k2}})
        if (of_lambda->size() != d_k)
            throw ShapeError(function, ": ", name, " ", shape_of(*of_lambda), " does not fit, expected (", d_k,
                             ",), d_k features of half a head");
    if (norm.gain.size() != maps.value.weight.shape(1) / heads)
        throw ShapeError(function, ": the gain of the norm ", shape_of(norm.gain), " does not fit, expected (",
                         maps.value.weight.shape(1) / heads, ",), d_v features of a head");
}

StepOptions describe(const DifferentialAttentionOptions& options)
{
    const auto& [heads, lambda_init, mask, causal, scale, norm] = options; // norm has steps that describe it
    return {{"heads", std::to_string(heads)},
            {"lambda_init", exact_text(lambda_init)},
            {"mask", describe(mask, causal)},
            {"scale", describe_scale(scale)}};
}

/// The factor of the second map, made of four vectors that all heads share.
Term<double> lambda_of(const DifferentialAttentionWeights& weights, double lambda_init, const Trace& trace)
{
    const Term q1 = trace.input("lambda_q1[d_k]", Term(weights.lambda_q1));
    const Term k1 = trace.input("lambda_k1[d_k]", Term(weights.lambda_k1));
    const Term q2 = trace.input("lambda_q2[d_k]", Term(weights.lambda_q2));
    const Term k2 = trace.input("lambda_k2[d_k]", Term(weights.lambda_k2));
    return trace("lambda_full", exp(sum_all(q1 * k1)) - exp(sum_all(q2 * k2)) + lambda_init);
}

/// One of the two maps of a head: the weights of its half of queries and keys.
/// @param part   0 and 1 in the first head, 2 and 3 in the second
/// @param trace  the scope of the map
template <Sequence T>
Term<T> softmax_map(const PackedHeads<T>& packed, std::size_t part, std::size_t parts, std::optional<double> scale,
                    const OptionalMask& mask, const Trace& trace)
{
    return attention_weights(scaled_scores(packed, part, parts, scale, trace), {.mask = mask}, trace);
}

} // namespace

template <Sequence T>
MultiHeadOf<T> differential_attention(const T& x, const DifferentialAttentionWeights& learned,
                                      const DifferentialAttentionOptions& options, const Trace& caller)
{
    constexpr std::string_view function = "differential_attention";
    expect_fit(function, Sources<T>(x), learned, options.heads);
    const Trace trace = caller.module(function, [&] { return describe(options); });
    const NamedSources from = name_sources(Sources<T>(x), trace);
    const std::size_t n = x.shape(token_axis<T>), heads = options.heads;

    // Make the queries, keys and values of all heads by three products.
    const PackedHeads packed = project(from, learned.maps, {}, trace);

    // Make what all heads share: lambda, the mask, and the gain of the norm.
    const Term lambda = lambda_of(learned, options.lambda_init, trace);
    const auto mask = join_masks(n, n, {.given = options.mask, .causal = options.causal}, trace);
    const HeadNorms norm = share_norms("norm", "d_v", {{learned.norm.gain}}, described(options.norm), trace);

    std::vector<Term<Value<T>>> all_weights, contexts;
    for (std::size_t i = 0; i < heads; ++i) {
        const Trace head = trace.scope("head", i);
        const auto mask_here = of_head("mask", mask, i, heads, head);

        // Subtract what both maps have in common.
        const Term first = softmax_map(packed, 2 * i, 2 * heads, options.scale, mask_here, head.scope("first"));
        const Term second = softmax_map(packed, 2 * i + 1, 2 * heads, options.scale, mask_here, head.scope("second"));
        const Term weights = head("weights[(b,) n, m]", first - lambda * second);

        // Average the values, and give each head the same size.
        const Term values = head("values[(b,) m, d_v]", of_head(packed.value, i, heads));
        const Term context = head("context[(b,) n, d_v]", matmul(weights, values));
        const Term kept = 1 - number(options.lambda_init, head);
        contexts.push_back(head("rescaled[(b,) n, d_v]", norm.of(context, i, head) * kept));
        all_weights.push_back(weights);
    }

    // Put the heads side by side, and mix them.
    const Term merged = trace("merged[(b,) n, h_d_v]", concat(contexts, -1));
    return {T(map_output(merged, learned.maps.output, trace)), all_as<T>(std::move(all_weights))};
}

ATTN_MAKE_FOR_SEQUENCES(differential_attention)

} // namespace attn
