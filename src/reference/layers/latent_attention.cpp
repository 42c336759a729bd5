#include "attn/reference/layers/latent_attention.hpp"

#include "heads.hpp"

#include "attn/core/shape.hpp"

#include <cmath>
#include <string>
#include <utility>

namespace attn {
namespace {

// ------------------------------------------------------------------------------------------------------- what must fit

/// How many heads there are, and the sizes that follow from the weights.
struct Sizes {
    std::size_t heads;
    std::size_t latent; ///< d_c
    std::size_t plain;  ///< d_n, features of a query or key that are not rotated
    std::size_t rotary; ///< d_r
    std::size_t value;  ///< d_v

    std::size_t query() const { return plain + rotary; }
    HeadColumns plain_columns(std::size_t head) const { return {head * query(), head * query() + plain}; }
    HeadColumns rotary_columns(std::size_t head) const { return {head * query() + plain, (head + 1) * query()}; }
    HeadColumns key_columns(std::size_t head) const { return {head * (plain + value), head * (plain + value) + plain}; }
    HeadColumns value_columns(std::size_t head) const
    {
        return {head * (plain + value) + plain, (head + 1) * (plain + value)};
    }
};

/// The columns of a map that lie after the first so many.
/// @param role   of the map: "compressed weights"
/// @param given  columns, of all or of one head
/// @param first  what those before are: "the 4 of the latent"
std::size_t columns_after(std::string_view function, std::string_view role, const Shape& shape, std::size_t given,
                          std::size_t before, const std::string& first, std::string_view missing)
{
    if (given <= before)
        throw ShapeError(function, ": ", role, " ", shape, " have ", given, " columns",
                         (given == shape.back() ? "" : " for each head"), ", and none is left for ", missing, " after ",
                         first);
    return given - before;
}

template <Sequence T>
void expect_query_maps(std::string_view function, const T& x, const LatentAttentionWeights& weights)
{
    constexpr std::size_t features = feature_axis<T>;
    const auto& latent = weights.query_latent;
    if (!latent)
        return expect_agreement(function, "d_model", {"x", x, features}, {"query weights", weights.query.weight, 0});
    expect_agreement(function, "d_model", {"x", x, features}, {"query latent weights", latent->down.weight, 0});
    expect_agreement(function, "d_q", {"query latent weights", latent->down.weight, 1},
                     {"query norm", latent->norm.gain, 0});
    expect_agreement(function, "d_q", {"query latent weights", latent->down.weight, 1},
                     {"query weights", weights.query.weight, 0});
}

/// Checks everything that x and the weights have to agree in.
template <Sequence T>
Sizes expect_sizes(std::string_view function, const T& x, const LatentAttentionWeights& weights,
                   const MultiHeadOptions& options)
{
    const Matrix &query = weights.query.weight, &compressed = weights.latent.down.weight,
                 &key_value = weights.key_value.weight;
    expect_query_maps(function, x, weights);
    expect_agreement(function, "d_model", {"x", x, feature_axis<T>}, {"compressed weights", compressed, 0});
    expect_agreement(function, "d_c", {"latent norm", weights.latent.norm.gain, 0},
                     {"key_value weights", key_value, 0});
    expect_even_split(function, "query weights", shape_of(query), options.heads);
    expect_even_split(function, "key_value weights", shape_of(key_value), options.heads);

    Sizes sizes{.heads = options.heads, .latent = key_value.shape(0), .plain = 0, .rotary = 0, .value = 0};
    sizes.rotary =
        columns_after(function, "compressed weights", shape_of(compressed), compressed.shape(1), sizes.latent,
                      "the " + std::to_string(sizes.latent) + " of the latent", "the rotary key");
    sizes.plain = columns_after(function, "query weights", shape_of(query), query.shape(1) / sizes.heads, sizes.rotary,
                                "the " + std::to_string(sizes.rotary) + " that are rotated", "the latent's keys");
    sizes.value = columns_after(function, "key_value weights", shape_of(key_value), key_value.shape(1) / sizes.heads,
                                sizes.plain, "the " + std::to_string(sizes.plain) + " of the key", "the value");
    if (sizes.heads * sizes.value != weights.output.weight.shape(0))
        throw ShapeError(function, ": key_value weights ", shape_of(key_value), " give ", sizes.heads, " values of ",
                         sizes.value, " features, which must be the rows of the output weights ",
                         shape_of(weights.output.weight));
    if (options.bias && options.positions == HeadPositions::alibi)
        throw Error(function, ": ALiBi is a bias, and another one is given: add them and give the sum");
    return sizes;
}

template <Sequence T>
void expect_past(std::string_view function, const T& x, const LatentCacheOf<Value<T>>& past,
                 const LatentAttentionWeights& weights, const Sizes& sizes)
{
    expect_agreement(function, "d_c", {"past latent", past.latent, feature_axis<T>},
                     {"latent norm", weights.latent.norm.gain, 0});
    if (past.shared_key.shape(feature_axis<T>) != sizes.rotary)
        throw ShapeError(function, ": past shared key ", shape_of(past.shared_key), " and compressed weights ",
                         shape_of(weights.latent.down.weight), ", whose last ", sizes.rotary,
                         " columns make the shared key, must agree in d_r");
    expect_agreement(function, "past", {"past latent", past.latent, token_axis<T>},
                     {"past shared key", past.shared_key, token_axis<T>});
    expect_same_batch(function, "x", x, "past latent", past.latent);
    expect_same_batch(function, "past latent", past.latent, "past shared key", past.shared_key);
}

void expect_absorbable(std::string_view function, const LinearWeights& key_value)
{
    if (key_value.bias)
        throw Error(function, ": the map to keys and values has a bias, which can't be absorbed into queries and "
                              "context: use latent_attention()");
}

// ------------------------------------------------------------------------------------------------- before the heads

/// The queries of all heads, made of the tokens, or of their latent.
template <Sequence T>
Term<T> make_queries(const Term<T>& x, const LatentAttentionWeights& weights, const RmsNormOptions& norm,
                     const Trace& trace)
{
    const auto& latent = weights.query_latent;
    if (!latent)
        return linear(x, weights.query, {"x", "query", "d_model", "h_d_k"}, trace);
    const Term compressed = linear(x, latent->down, {"x", "query_latent", "d_model", "d_q"}, trace);
    const Term normalized = rms_norm(compressed, latent->norm, norm, trace.scope("query_norm"));
    return linear(normalized, weights.query, {"query_norm.output", "query", "d_q", "h_d_k"}, trace);
}

/// The latents of tokens, and the key that all heads share.
template <Sequence T>
struct Latents {
    Term<T> latent, shared_key;
};

/// One part of the cache: that of the new tokens, after the past's where there is one.
/// @param name  "latent"
/// @param axis  the letter of its features: "d_c"
template <Sequence T>
Term<T> after_past(const std::string& name, const std::string& axis, const Term<T>& added, const T* past,
                   const Trace& trace)
{
    if (past == nullptr)
        return trace.input(name + "[(b,) m, " + axis + "]", added);
    const Term fresh = trace.input("new_" + name + "[(b,) n, " + axis + "]", added);
    const Term before = trace.input("past_" + name + "[(b,) past, " + axis + "]", Term(*past));
    return trace(name + "[(b,) m, " + axis + "]", concat_rows(before, fresh));
}

template <Sequence T>
Latents<T> compress(const Term<T>& x, const LatentCacheOf<T>* past, const LatentWeights& weights, const Sizes& sizes,
                    const MultiHeadOptions& options, const Trace& trace)
{
    const std::string_view tokens = past == nullptr ? "m" : "n";
    const Term compressed = linear(x, weights.down, {"x", "compressed", "d_model", "d_c_r", tokens}, trace);
    const HeadColumns of_latent{0, sizes.latent}, of_key{sizes.latent, sizes.latent + sizes.rotary};

    const Trace norm = trace.scope("latent_norm");
    const Term part = norm("x[(b,) n, d_model]", of_latent.of(compressed));
    Term latent = after_past("latent", "d_c", rms_norm(part, weights.norm, options.norm, norm),
                             past ? &past->latent : nullptr, trace);

    Term key = of_key.of(compressed);
    if (options.positions == HeadPositions::rotary) {
        const Trace place = trace.scope("rotary_key");
        key = rotary(place("x[(b,) n, d]", key), options.rotary, place);
    }
    key = after_past("shared_key", "d_r", key, past ? &past->shared_key : nullptr, trace);
    return {std::move(latent), std::move(key)};
}

// ----------------------------------------------------------------------------------------------------------- one head

/// What of a head's queries meets the shared key: rotated where positions are rotary.
template <Sequence T>
Term<T> rotary_part(const Term<T>& query, const Sizes& sizes, std::size_t head, const MultiHeadOptions& options,
                    const Trace& trace)
{
    const Term part = sizes.rotary_columns(head).of(query);
    if (options.positions != HeadPositions::rotary)
        return part;
    const Trace place = trace.scope("rotary_query");
    return rotary(place("x[(b,) n, d]", part), options.rotary, place);
}

/// The heads of plain latent attention: keys and values are made of the latents.
template <Sequence T>
class MadeHeads {
public:
    MadeHeads(const Latents<T>& latents, const LinearWeights& weights, const Sizes& sizes, const Trace& trace)
        : latents_(latents),
          sizes_(sizes),
          key_value_(linear(latents.latent, weights, {"latent", "key_value", "d_c", "h_d_n_v", "m"}, trace))
    {
    }

    /// @return its context, ((b,) n, d_v), and its weights
    AttentionOf<Term<T>> attend(const Term<T>& query, std::size_t head, const MultiHeadOptions& all,
                                const AttentionOptions& options, const Trace& trace) const
    {
        const Term plain = sizes_.plain_columns(head).of(query);
        const Term rotated = rotary_part(query, sizes_, head, all, trace);
        const Term queries = trace("queries[(b,) n, d_k]", concat<T>({plain, rotated}, -1));
        const Term keys =
            trace("keys[(b,) m, d_k]", concat<T>({sizes_.key_columns(head).of(key_value_), latents_.shared_key}, -1));
        const Term values = trace("values[(b,) m, d_v]", sizes_.value_columns(head).of(key_value_));
        return scaled_dot_product_attention(queries, keys, values, options, trace);
    }

private:
    const Latents<T>& latents_;
    const Sizes& sizes_;
    Term<T> key_value_;
};

/// The heads of absorbed latent attention, which attend to the latents as they are.
template <Sequence T>
class AbsorbedHeads {
public:
    AbsorbedHeads(const Latents<T>& latents, const LinearWeights& weights, const Sizes& sizes, const Trace& trace)
        : latents_(latents),
          sizes_(sizes),
          keys_(trace("latent_keys[(b,) m, d_c_r]", concat<T>({latents.latent, latents.shared_key}, -1))),
          weights_(trace.input("key_value_weights[d_c, h_d_n_v]", Term(weights.weight)))
    {
    }

    /// @return its context after the map to values, ((b,) n, d_v), and its weights
    AttentionOf<Term<T>> attend(const Term<T>& query, std::size_t head, const MultiHeadOptions& all,
                                AttentionOptions options, const Trace& trace) const
    {
        // Absorb the head's map to keys into its queries.
        const Term rotated = rotary_part(query, sizes_, head, all, trace);
        const Term to_keys = trace("key_weights[d_c, d_n]", sizes_.key_columns(head).of(weights_));
        const Term absorbed =
            trace("absorbed[(b,) n, d_c]", matmul(sizes_.plain_columns(head).of(query), transpose(to_keys)));
        const Term queries = trace("queries[(b,) n, d_c_r]", concat<T>({absorbed, rotated}, -1));

        // Attend to the latents, at the scale of the queries that they stand for.
        const Term keys = trace.alias("keys", keys_), values = trace.alias("values", latents_.latent);
        if (!options.scale)
            options.scale = 1 / std::sqrt(static_cast<double>(sizes_.query()));
        auto attention = scaled_dot_product_attention(queries, keys, values, options, trace);

        // Map what came of it to values.
        const Term to_values = trace("value_weights[d_c, d_v]", sizes_.value_columns(head).of(weights_));
        attention.context = trace("mapped[(b,) n, d_v]", matmul(attention.context, to_values));
        return attention;
    }

private:
    const Latents<T>& latents_;
    const Sizes& sizes_;
    Term<T> keys_;
    Term<Matrix> weights_;
};

// --------------------------------------------------------------------------------------------------------- all of them

template <template <class> class Heads, Sequence T>
CachedLatentAttentionOf<T> attend(std::string_view function, const T& tokens, const PastLatents<Value<T>>& past,
                                  const LatentAttentionWeights& weights, const MultiHeadOptions& given,
                                  const Trace& caller)
{
    using V = Value<T>;
    const Sizes sizes = expect_sizes(function, tokens, weights, given);
    expect_no_scaled_queries(function, given);
    if (past)
        expect_past(function, tokens, *past, weights, sizes);
    const std::size_t earlier = past ? past->latent.shape(token_axis<T>) : 0;
    const std::size_t n = tokens.shape(token_axis<T>), m = earlier + n;
    const Trace trace = caller.module(function, [&] { return describe(Groups{sizes.heads, sizes.heads}, given); });
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));
    MultiHeadOptions options = given;
    stand_after(earlier, options);

    // Make queries, the latents of keys and values, and the key that all heads share.
    const Term query = make_queries(x, weights, options.norm, trace);
    const Latents<V> latents = compress(x, past ? &*past : nullptr, weights.latent, sizes, options, trace);

    // Attend in each head.
    const Heads<V> heads(latents, weights.key_value, sizes, trace);
    options.mask = join_masks(n, m, {.given = given.mask, .causal = given.causal}, trace);
    options.bias = share("bias[(b,) n, m]", given.bias, trace);
    std::vector<Term<V>> contexts, all_weights;
    for (std::size_t i = 0; i < sizes.heads; ++i) {
        const Trace head = trace.scope("head", i);
        auto attention = heads.attend(query, i, options, options_of_head(options, n, m, i, head), head);
        contexts.push_back(std::move(attention.context));
        all_weights.push_back(std::move(attention.weights));
    }

    // Mix the heads by the output map.
    const Term merged = trace("merged[(b,) n, h_d_v]", concat(contexts, -1));
    Term output = linear(merged, weights.output, {"merged", "output", "h_d_v", "d_model"}, trace);
    return {T(std::move(output)), all_as<T>(std::move(all_weights)), {*latents.latent, *latents.shared_key}};
}

} // namespace

template <Sequence T>
MultiHeadOf<T> latent_attention(const T& x, const LatentAttentionWeights& weights, const MultiHeadOptions& options,
                                const Trace& trace)
{
    auto all = attend<MadeHeads>("latent_attention", x, {}, weights, options, trace);
    return {std::move(all.output), std::move(all.weights)};
}

template <Sequence T>
MultiHeadOf<T> absorbed_latent_attention(const T& x, const LatentAttentionWeights& weights,
                                         const MultiHeadOptions& options, const Trace& trace)
{
    constexpr std::string_view function = "absorbed_latent_attention";
    expect_absorbable(function, weights.key_value);
    auto all = attend<AbsorbedHeads>(function, x, {}, weights, options, trace);
    return {std::move(all.output), std::move(all.weights)};
}

template <Sequence T>
CachedLatentAttentionOf<T> cached_latent_attention(const T& x, const PastLatents<Value<T>>& past,
                                                   const LatentAttentionWeights& weights,
                                                   const MultiHeadOptions& options, const Trace& trace)
{
    return attend<MadeHeads>("cached_latent_attention", x, past, weights, options, trace);
}

template <Sequence T>
CachedLatentAttentionOf<T> cached_absorbed_latent_attention(const T& x, const PastLatents<Value<T>>& past,
                                                            const LatentAttentionWeights& weights,
                                                            const MultiHeadOptions& options, const Trace& trace)
{
    constexpr std::string_view function = "cached_absorbed_latent_attention";
    expect_absorbable(function, weights.key_value);
    return attend<AbsorbedHeads>(function, x, past, weights, options, trace);
}

ATTN_MAKE_FOR_SEQUENCES(latent_attention)
ATTN_MAKE_FOR_SEQUENCES(absorbed_latent_attention)
ATTN_MAKE_FOR_SEQUENCES(cached_latent_attention)
ATTN_MAKE_FOR_SEQUENCES(cached_absorbed_latent_attention)

std::optional<double> latent_attention_scale(const RotaryScaling& scaling, std::size_t d_k)
{
    const auto* yarn = std::get_if<YarnScaling>(&scaling);
    const double all = yarn == nullptr ? 0 : yarn->mscale_all_dim.value_or(0);
    if (all == 0 || yarn->factor <= 1)
        return std::nullopt;
    const double mscale = 0.1 * all * std::log(yarn->factor) + 1;
    return mscale * mscale / std::sqrt(static_cast<double>(d_k));
}

} // namespace attn
