#include "attn/reference/layers/block.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/layers/residual.hpp"
#include "attn/reference/ops/terms.hpp"

#include <string>

namespace attn {
namespace {

/// Which norms of a sublayer there are.
struct PlacesRow {
    NormPlaces choice;
    std::string_view name;
    bool before, of_result, after_sum;
};

constexpr PlacesRow places_table[] = {
    {NormPlaces::before, "before", true, false, false},
    {NormPlaces::after_sum, "after-sum", false, false, true},
    {NormPlaces::after_sublayer, "after-sublayer", false, true, false},
    {NormPlaces::around, "around", true, true, false},
};

template <Sequence T>
Term<T> attend_to_each_other(const Term<T>& x, const SelfAttentionWeights& weights, const BlockDescription& description,
                             const MultiHeadOptions& options, const Trace& trace)
{
    if (const auto* latent = std::get_if<LatentAttentionWeights>(&weights))
        return latent_attention(x, *latent, options, trace).output;
    if (const auto* delta_net = std::get_if<GatedDeltaNetWeights>(&weights))
        return gated_delta_net(x, *delta_net, description.delta_net, trace).output;
    return multi_head_attention(x, std::get<MultiHeadWeights>(weights), options, trace).output;
}

/// What there is of the kind of cache that some weights have.
template <class Cache, class Caches>
std::optional<Cache> past_of(const std::optional<Caches>& past)
{
    if (past && !std::holds_alternative<Cache>(*past))
        throw Error("cached_decoder_block: the cache is of another kind of attention than the weights");
    return past ? std::optional(std::get<Cache>(*past)) : std::nullopt;
}

template <Sequence T>
CachedBlockOf<Term<T>> attend_after(const Term<T>& x, const PastOfBlock<T>& past, const SelfAttentionWeights& weights,
                                    const BlockDescription& description, const MultiHeadOptions& options,
                                    const Trace& trace)
{
    if (const auto* latent = std::get_if<LatentAttentionWeights>(&weights)) {
        auto attended = cached_latent_attention(x, past_of<LatentCacheOf<T>>(past), *latent, options, trace);
        return {std::move(attended.output), std::move(attended.cache)};
    }
    if (const auto* delta_net = std::get_if<GatedDeltaNetWeights>(&weights)) {
        auto read =
            gated_delta_net(x, past_of<GatedDeltaNetCacheOf<T>>(past), *delta_net, description.delta_net, trace);
        return {std::move(read.output), std::move(read.cache)};
    }
    auto attended = cached_self_attention(x, past_of<KeyValueCacheOf<T>>(past), std::get<MultiHeadWeights>(weights),
                                          options, trace);
    return {std::move(attended.output), std::move(attended.cache)};
}

template <Sequence T>
Term<T> map_tokens(const Term<T>& x, const NetworkWeights& weights, const BlockDescription& description,
                   const Trace& trace)
{
    if (const auto* mixture = std::get_if<ExpertsWeights>(&weights))
        return experts(x, *mixture, description.experts, trace);
    if (const auto* gated = std::get_if<GatedFeedForwardWeights>(&weights))
        return gated_feed_forward(x, *gated, {.activation = description.activation}, trace);
    return feed_forward(x, std::get<FeedForwardWeights>(weights), {.activation = description.activation}, trace);
}

/// The norm of a block that stands in a scope.
const LayerNormWeights& expect_norm(const std::optional<LayerNormWeights>& weights, const PlacesRow& places,
                                    std::string_view scope)
{
    if (!weights)
        throw Error("decoder_block: norms stand ", places.name, ", and the weights have no ", scope);
    return *weights;
}

/// Cross-attention to a memory has as many heads as self-attention and the same scale, but neither positions nor a causal mask.
template <Sequence T>
Term<T> attend_to_memory(const Term<T>& y, const MultiHeadWeights& weights, const BlockMemoryOf<Term<T>>& memory,
                         const MultiHeadOptions& of_heads, const Trace& trace)
{
    const MultiHeadOptions options{
        .heads = of_heads.heads, .mask = share("memory_mask[(b,) n, m]", memory.mask, trace), .scale = of_heads.scale};
    if (memory.mask)
        trace.alias("mask", "memory_mask");
    const Term queries = trace.input("x[(b,) n, d_model]", y);
    if (const auto* tokens = std::get_if<Term<T>>(&memory.tokens))
        return multi_head_attention(Sources(queries, trace.input("memory[(b,) m, d_memory]", *tokens)), weights,
                                    options, trace)
            .output;
    if constexpr (std::same_as<T, Matrix>)
        return cached_cross_attention(queries, std::get<KeyValueCache>(memory.tokens), weights, options, trace).output;
    throw Error("decoder_block: keys and values of a memory are those of one sequence");
}

/// One block, whose self-attention is given: from (tokens, options, scope) to its output.
template <Sequence T, class Attend>
Term<T> block(std::string_view function, const Term<T>& tokens, const BlockWeights& weights,
              const BlockDescription& description, const OptionalMask& given_mask, const BlockMemoryOf<Term<T>>& memory,
              const Trace& caller, const Attend& attend)
{
    const bool has_memory = !std::holds_alternative<std::monostate>(memory.tokens);
    if (has_memory != weights.cross_attention.has_value())
        throw Error(std::string(function) + (has_memory ? ": a memory is given, and the layer has no cross-attention"
                                                        : ": the layer attends to a memory, and none is given"));
    const Trace trace = caller.module(function, [&] { return describe(description); });
    const Term x = trace.input("x[(b,) n, d_model]", tokens);
    MultiHeadOptions of_heads = description.attention;
    of_heads.mask = share("mask[(b,) n, m]", given_mask, trace);
    const PlacesRow& places = row_for<places_table>(description.places);
    if (has_memory && description.is_parallel)
        throw Error(std::string(function) +
                    ": a memory stands between sublayers that follow each other, and these are parallel");
    const auto normalized = [&](bool stands, std::string_view scope, const std::optional<LayerNormWeights>& of_norm,
                                const Term<T>& y) {
        return stands ? norm(y, expect_norm(of_norm, places, scope), description.norm, trace.scope(scope)) : y;
    };
    const auto map = [&](const Term<T>& y) {
        const Term mapped = map_tokens(y, weights.feed_forward, description, trace.scope("feed_forward"));
        return normalized(places.of_result, "post_norm2", weights.post_norm2,
                          added_to(x, function, "feed_forward", mapped));
    };
    const auto attended_to = [&](const Term<T>& y) {
        return added_to(x, function, "self_attn", attend(y, of_heads, trace.scope("self_attn")));
    };
    const auto scaled = [&](std::string_view name, const std::optional<Vector>& learned, const Term<T>& y) {
        const Term own = learned ? y * trace.input(std::string(name) + "[d_model]", Term(*learned)) : y;
        return description.residual_scale == 1 ? own : description.residual_scale * own;
    };

    // Attend to the other tokens.
    const Term norm1 = normalized(places.before && description.has_first_norm, "norm1", weights.norm1, x);
    const Term attended = normalized(places.of_result, "post_norm1", weights.post_norm1, attended_to(norm1));

    // Map each token by itself: the same tokens, side by side with attention,
    if (description.is_parallel) {
        const Term norm2 = weights.norm2 ? normalized(places.before, "norm2", weights.norm2, x) : norm1;
        return trace("output[(b,) n, d_model]",
                     x + scaled("scale1", weights.scale1, attended) + scaled("scale2", weights.scale2, map(norm2)));
    }

    // or those that attention has changed.
    const Term residual =
        normalized(places.after_sum, "norm1", weights.norm1,
                   trace("residual1[(b,) n, d_model]",
                         (description.adds_to_norms ? norm1 : x) + scaled("scale1", weights.scale1, attended)));
    Term informed = residual;
    if (has_memory) {
        const Term y = normalized(places.before, "cross_norm", weights.cross_norm, residual);
        const Trace inside = trace.scope("cross_attn");
        informed = trace("cross_residual[(b,) n, d_model]",
                         residual + scaled("cross_scale", {},
                                           attend_to_memory(y, *weights.cross_attention, memory, of_heads, inside)));
        informed = normalized(places.after_sum, "cross_norm", weights.cross_norm, informed);
    }
    const Term norm2 = normalized(places.before, "norm2", weights.norm2, informed);
    const Term both = (description.adds_to_norms ? norm2 : informed) + scaled("scale2", weights.scale2, map(norm2));
    if (!places.after_sum)
        return trace("output[(b,) n, d_model]", both);
    const Term sum = trace("residual2[(b,) n, d_model]", both);
    return trace.alias("output", normalized(true, "norm2", weights.norm2, sum));
}

} // namespace

StepOptions describe(const BlockDescription& description)
{
    const auto& [norm, places, has_first_norm, is_parallel, residual_scale, attention, delta_net, window, chunk,
                 activation, experts, kept, adds_to_norms] =
        description; // those of a gated DeltaNet and of experts are said by their own steps
    StepOptions described{
        {"norm", std::string(name_of(norm.kind))},       {"epsilon", exact_text(norm.epsilon)},
        {"norms", std::string(name_of(places))},         {"heads", std::to_string(attention.heads)},
        {"scale", describe_scale(attention.scale)},      {"positions", std::string(name_of(attention.positions))},
        {"activation", std::string(name_of(activation))}};
    const auto add = [&](bool is_there, const char* name, std::string value) {
        if (is_there)
            described.emplace_back(name, std::move(value));
    };
    add(norm.adds_one, "adds_one", "true");
    add(!has_first_norm, "first_norm", "none");
    add(is_parallel, "sublayers", "parallel");
    add(residual_scale != 1, "residual_scale", exact_text(residual_scale));
    add(attention.softcap.has_value(), "softcap", exact_text(attention.softcap.value_or(0)));
    add(window.has_value(), "window", std::to_string(window.value_or(0)));
    add(kept > 0, "kept", std::to_string(kept));
    add(adds_to_norms, "residuals", "of norms");
    add(chunk.has_value(), "chunk", std::to_string(chunk.value_or(0)));
    add(attention.unit_epsilon.has_value(), "unit_epsilon", exact_text(attention.unit_epsilon.value_or(0)));
    if (const auto& temperature = attention.temperature)
        described.emplace_back("temperature",
                               exact_text(temperature->strength) + " from every " + std::to_string(temperature->every));
    if (attention.positions == HeadPositions::rotary)
        for (auto& [name, value] : describe(attention.rotary))
            described.emplace_back("rotary_" + name, std::move(value));
    return described;
}

std::string_view name_of(NormPlaces places) { return row_for<places_table>(places).name; }

namespace {

template <Sequence T>
BlockMemoryOf<Term<Value<T>>> as_terms(const BlockMemoryOf<T>& memory)
{
    BlockMemoryOf<Term<Value<T>>> terms{.mask = memory.mask};
    if (const auto* tokens = std::get_if<T>(&memory.tokens))
        terms.tokens = Term(*tokens);
    if (const auto* cache = std::get_if<KeyValueCache>(&memory.tokens))
        terms.tokens = *cache;
    return terms;
}

} // namespace

template <Sequence T>
T decoder_block(const T& x, const BlockWeights& weights, const BlockDescription& description, const OptionalMask& mask,
                const Trace& trace, const BlockMemoryOf<T>& memory)
{
    return T(block("decoder_block", Term(x), weights, description, mask, as_terms(memory), trace,
                   [&](const auto& y, const MultiHeadOptions& of_heads, const Trace& inside) {
                       return attend_to_each_other(y, weights.self_attention, description, of_heads, inside);
                   }));
}

template <Sequence T>
CachedBlockOf<T> cached_decoder_block(const T& x, const PastOfBlock<Value<T>>& past, const BlockWeights& weights,
                                      const BlockDescription& description, const OptionalMask& mask, const Trace& trace,
                                      const BlockMemoryOf<T>& memory)
{
    CachedBlockOf<T> result;
    result.output = T(block("cached_decoder_block", Term(x), weights, description, mask, as_terms(memory), trace,
                            [&](const auto& y, const MultiHeadOptions& of_heads, const Trace& inside) {
                                auto attended =
                                    attend_after(y, past, weights.self_attention, description, of_heads, inside);
                                result.cache = std::move(attended.cache);
                                return std::move(attended.output);
                            }));
    return result;
}

#define ATTN_INSTANTIATE(T)                                                                                            \
    template T decoder_block(const T&, const BlockWeights&, const BlockDescription&, const OptionalMask&,              \
                             const Trace&, const BlockMemoryOf<T>&);                                                   \
    template CachedBlockOf<T> cached_decoder_block(const T&, const PastOfBlock<Value<T>>&, const BlockWeights&,        \
                                                   const BlockDescription&, const OptionalMask&, const Trace&,         \
                                                   const BlockMemoryOf<T>&);
ATTN_FOR_SEQUENCES(ATTN_INSTANTIATE)
#undef ATTN_INSTANTIATE

} // namespace attn
