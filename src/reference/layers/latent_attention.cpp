#include "attn/reference/layers/latent_attention.hpp"

#include "heads.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"

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
        throw ShapeError(std::string(function) + ": " + std::string(role) + " " + to_string(shape) + " have " +
                         std::to_string(given) + " columns" + (given == shape.back() ? "" : " for each head") +
                         ", and none is left for " + std::string(missing) + " after " + first);
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
        throw ShapeError(std::string(function) + ": key_value weights " + to_string(shape_of(key_value)) + " give " +
                         std::to_string(sizes.heads) + " values of " + std::to_string(sizes.value) +
                         " features, which must be the rows of the output weights " +
                         to_string(shape_of(weights.output.weight)));
    if (options.bias && options.positions == HeadPositions::alibi)
        throw Error(std::string(function) + ": ALiBi is a bias, and another one is given: add them and give the sum");
    return sizes;
}

template <Sequence T>
void expect_past(std::string_view function, const T& x, const LatentCacheOf<T>& past,
                 const LatentAttentionWeights& weights, const Sizes& sizes)
{
    expect_agreement(function, "d_c", {"past latent", past.latent, feature_axis<T>},
                     {"latent norm", weights.latent.norm.gain, 0});
    if (past.shared_key.shape(feature_axis<T>) != sizes.rotary)
        throw ShapeError(std::string(function) + ": past shared key " + to_string(shape_of(past.shared_key)) +
                         " and compressed weights " + to_string(shape_of(weights.latent.down.weight)) +
                         ", whose last " + std::to_string(sizes.rotary) +
                         " columns make the shared key, must agree in d_r");
    expect_agreement(function, "past", {"past latent", past.latent, token_axis<T>},
                     {"past shared key", past.shared_key, token_axis<T>});
    expect_same_batch(function, "x", x, "past latent", past.latent);
    expect_same_batch(function, "past latent", past.latent, "past shared key", past.shared_key);
}

void expect_absorbable(std::string_view function, const LinearWeights& key_value)
{
    if (key_value.bias)
        throw Error(std::string(function) +
                    ": the map to keys and values has a bias, which can't be absorbed into queries and context: use "
                    "latent_attention()");
}

// ------------------------------------------------------------------------------------------------- before the heads

/// Some columns of a tensor.
/// @param step  label of the result: "values[(b,) m, d_v]"
/// @param name  of the tensor: "key_value"
template <Traceable T>
T cut(std::string_view step, std::string_view name, const T& packed, const HeadColumns& of, const Trace& trace)
{
    return trace(
        step, [&] { return of.of(name); }, columns(packed, of.begin, of.end));
}

/// The queries of all heads, made of the tokens, or of their latent.
template <Sequence T>
T make_queries(const T& x, const LatentAttentionWeights& weights, const RmsNormOptions& norm, const Trace& trace)
{
    const auto& latent = weights.query_latent;
    if (!latent)
        return linear(x, weights.query, {"x", "query", "d_model", "h_d_k"}, trace);
    const T compressed = linear(x, latent->down, {"x", "query_latent", "d_model", "d_q"}, trace);
    const Trace inside = trace.scope("query_norm", {{"x", "query_latent"}});
    const T normalized = rms_norm(compressed, latent->norm, norm, inside);
    return linear(normalized, weights.query, {"query_norm.output", "query", "d_q", "h_d_k"}, trace);
}

/// One part of the cache: that of the new tokens, after the past's where there is one.
/// @param name  "latent"
/// @param axis  the letter of its features: "d_c"
template <Sequence T>
T after_past(const std::string& name, const std::string& axis, T added, const T* past, const Trace& trace)
{
    if (past == nullptr)
        return added;
    const T& before = trace.input("past_" + name + "[(b,) past, " + axis + "]", *past);
    return trace(
        name + "[(b,) m, " + axis + "]",
        [&] { return "concat(past_" + name + ", new_" + name + ", axis=" + std::to_string(token_axis<T>) + ")"; },
        concat_rows(before, added));
}

/// The latents of all tokens, and the key that all heads share.
template <Sequence T>
LatentCacheOf<T> compress(const T& x, const LatentCacheOf<T>* past, const LatentWeights& weights, const Sizes& sizes,
                          const MultiHeadOptions& options, const Trace& trace)
{
    const std::string tokens = past == nullptr ? "m" : "n", which = past == nullptr ? "" : "new_";
    const T compressed = linear(x, weights.down, {"x", "compressed", "d_model", "d_c_r", tokens}, trace);
    const HeadColumns of_latent{0, sizes.latent}, of_key{sizes.latent, sizes.latent + sizes.rotary};

    const Trace norm = trace.scope("latent_norm");
    T latent = rms_norm(cut("x[(b,) n, d_model]", "compressed", compressed, of_latent, norm), weights.norm,
                        options.norm, norm);
    trace.alias(which + "latent", "latent_norm.output");
    latent = after_past("latent", "d_c", std::move(latent), past ? &past->latent : nullptr, trace);

    T key;
    if (options.positions == HeadPositions::rotary) {
        const Trace place = trace.scope("rotary_key");
        key = rotary(cut("x[(b,) n, d]", "compressed", compressed, of_key, place), options.rotary, place);
        trace.alias(which + "shared_key", "rotary_key.output");
    } else {
        key = cut(which + "shared_key[(b,) " + tokens + ", d_r]", "compressed", compressed, of_key, trace);
    }
    key = after_past("shared_key", "d_r", std::move(key), past ? &past->shared_key : nullptr, trace);
    return {std::move(latent), std::move(key)};
}

// ----------------------------------------------------------------------------------------------------------- one head

/// What of a head's queries meets the shared key: rotated where positions are rotary.
/// @return and how a formula names it
template <Sequence T>
std::pair<T, std::string> rotary_part(const T& query, const Sizes& sizes, std::size_t head,
                                      const MultiHeadOptions& options, const Trace& trace)
{
    const HeadColumns of_head = sizes.rotary_columns(head);
    if (options.positions != HeadPositions::rotary)
        return {columns(query, of_head.begin, of_head.end), of_head.of("query")};
    const Trace place = trace.scope("rotary_query");
    return {rotary(cut("x[(b,) n, d]", "query", query, of_head, place), options.rotary, place), "rotary_query.output"};
}

/// Two parts of a head's queries or keys side by side.
template <Sequence T>
T beside(std::string_view step, const std::string& left_name, const T& left, const std::string& right_name,
         const T& right, const Trace& trace)
{
    return trace(
        step, [&] { return "concat(" + left_name + ", " + right_name + ", axis=-1)"; }, concat_columns({left, right}));
}

/// The heads of plain latent attention: keys and values are made of the latents.
template <Sequence T>
class MadeHeads {
public:
    static constexpr std::string_view context = "context";

    MadeHeads(const LatentCacheOf<T>& latents, const LinearWeights& weights, const Sizes& sizes, const Trace& trace)
        : latents_(latents),
          sizes_(sizes),
          key_value_(linear(latents.latent, weights, {"latent", "key_value", "d_c", "h_d_n_v", "m"}, trace))
    {
    }

    /// @return its context, ((b,) n, d_v), and its weights
    AttentionOf<T> attend(const T& query, std::size_t head, const MultiHeadOptions& all,
                          const AttentionOptions& options, const Trace& trace) const
    {
        const HeadColumns of_query = sizes_.plain_columns(head), of_key = sizes_.key_columns(head);
        const auto [rotated, name] = rotary_part(query, sizes_, head, all, trace);
        const T queries = beside("queries[(b,) n, d_k]", of_query.of("query"),
                                 columns(query, of_query.begin, of_query.end), name, rotated, trace);
        const T keys = beside("keys[(b,) m, d_k]", of_key.of("key_value"),
                              columns(key_value_, of_key.begin, of_key.end), "shared_key", latents_.shared_key, trace);
        const T values = cut("values[(b,) m, d_v]", "key_value", key_value_, sizes_.value_columns(head), trace);
        return scaled_dot_product_attention(queries, keys, values, options, trace);
    }

private:
    const LatentCacheOf<T>& latents_;
    const Sizes& sizes_;
    T key_value_;
};

/// The heads of absorbed latent attention, which attend to the latents as they are.
template <Sequence T>
class AbsorbedHeads {
public:
    static constexpr std::string_view context = "mapped";

    AbsorbedHeads(const LatentCacheOf<T>& latents, const LinearWeights& weights, const Sizes& sizes, const Trace& trace)
        : latents_(latents),
          sizes_(sizes),
          keys_(
              beside("latent_keys[(b,) m, d_c_r]", "latent", latents.latent, "shared_key", latents.shared_key, trace)),
          weights_(trace.input("key_value_weights[d_c, h_d_n_v]", weights.weight))
    {
    }

    /// @return its context after the map to values, ((b,) n, d_v), and its weights
    AttentionOf<T> attend(const T& query, std::size_t head, const MultiHeadOptions& all, AttentionOptions options,
                          const Trace& trace) const
    {
        // Absorb the head's map to keys into its queries.
        const HeadColumns of_query = sizes_.plain_columns(head);
        const auto [rotated, name] = rotary_part(query, sizes_, head, all, trace);
        const Matrix to_keys =
            cut("key_weights[d_c, d_n]", "key_value_weights", weights_, sizes_.key_columns(head), trace);
        const T absorbed = trace(
            "absorbed[(b,) n, d_c]", [&] { return of_query.of("query") + " @ key_weights.T"; },
            matmul(columns(query, of_query.begin, of_query.end), transpose(to_keys)));
        const T queries = beside("queries[(b,) n, d_c_r]", "absorbed", absorbed, name, rotated, trace);

        // Attend to the latents, at the scale of the queries that they stand for.
        trace.alias("keys", "latent_keys");
        trace.alias("values", "latent");
        if (!options.scale)
            options.scale = 1 / std::sqrt(static_cast<double>(sizes_.query()));
        AttentionOf<T> attention = scaled_dot_product_attention(queries, keys_, latents_.latent, options, trace);

        // Map what came of it to values.
        const Matrix to_values =
            cut("value_weights[d_c, d_v]", "key_value_weights", weights_, sizes_.value_columns(head), trace);
        attention.context =
            trace("mapped[(b,) n, d_v]", "context @ value_weights", matmul(attention.context, to_values));
        return attention;
    }

private:
    const LatentCacheOf<T>& latents_;
    const Sizes& sizes_;
    T keys_;
    const Matrix& weights_;
};

// --------------------------------------------------------------------------------------------------------- all of them

template <class Heads, Sequence T>
CachedLatentAttentionOf<T> attend(std::string_view function, const T& tokens, const PastLatents<T>& past,
                                  const LatentAttentionWeights& weights, const MultiHeadOptions& given,
                                  const Trace& caller)
{
    const Sizes sizes = expect_sizes(function, tokens, weights, given);
    expect_no_scaled_queries(function, given);
    if (past)
        expect_past(function, tokens, *past, weights, sizes);
    const std::size_t earlier = past ? past->latent.shape(token_axis<T>) : 0;
    const std::size_t n = tokens.shape(token_axis<T>), m = earlier + n;
    const Trace trace = caller.module(function, [&] { return describe(Groups{sizes.heads, sizes.heads}, given); });
    const T& x = trace.input("x[(b,) n, d_model]", tokens);
    MultiHeadOptions options = given;
    options.rotary.first += earlier;

    // Make queries, the latents of keys and values, and the key that all heads share.
    const T query = make_queries(x, weights, options.norm, trace);
    LatentCacheOf<T> latents = compress(x, past ? &*past : nullptr, weights.latent, sizes, options, trace);

    // Attend in each head.
    const Heads heads(latents, weights.key_value, sizes, trace);
    options.mask = join_masks(n, m, {.given = given.mask, .causal = given.causal}, trace);
    options.bias = share("bias[(b,) n, m]", given.bias, trace);
    std::vector<T> contexts, all_weights;
    for (std::size_t i = 0; i < sizes.heads; ++i) {
        const Trace head = trace.scope("head", i);
        AttentionOf<T> attention = heads.attend(query, i, options, options_of_head(options, n, m, i, head), head);
        contexts.push_back(std::move(attention.context));
        all_weights.push_back(std::move(attention.weights));
    }

    // Mix the heads by the output map.
    const T merged = trace(
        "merged[(b,) n, h_d_v]", [&] { return merging(Heads::context, sizes.heads); }, concat_columns(contexts));
    T output = linear(merged, weights.output, {"merged", "output", "h_d_v", "d_model"}, trace);
    return {std::move(output), std::move(all_weights), std::move(latents)};
}

} // namespace

template <Sequence T>
MultiHeadOf<T> latent_attention(const T& x, const LatentAttentionWeights& weights, const MultiHeadOptions& options,
                                const Trace& trace)
{
    CachedLatentAttentionOf<T> all = attend<MadeHeads<T>>("latent_attention", x, {}, weights, options, trace);
    return {std::move(all.output), std::move(all.weights)};
}

template <Sequence T>
MultiHeadOf<T> absorbed_latent_attention(const T& x, const LatentAttentionWeights& weights,
                                         const MultiHeadOptions& options, const Trace& trace)
{
    constexpr std::string_view function = "absorbed_latent_attention";
    expect_absorbable(function, weights.key_value);
    CachedLatentAttentionOf<T> all = attend<AbsorbedHeads<T>>(function, x, {}, weights, options, trace);
    return {std::move(all.output), std::move(all.weights)};
}

template <Sequence T>
CachedLatentAttentionOf<T> cached_latent_attention(const T& x, const PastLatents<T>& past,
                                                   const LatentAttentionWeights& weights,
                                                   const MultiHeadOptions& options, const Trace& trace)
{
    return attend<MadeHeads<T>>("cached_latent_attention", x, past, weights, options, trace);
}

template <Sequence T>
CachedLatentAttentionOf<T> cached_absorbed_latent_attention(const T& x, const PastLatents<T>& past,
                                                            const LatentAttentionWeights& weights,
                                                            const MultiHeadOptions& options, const Trace& trace)
{
    constexpr std::string_view function = "cached_absorbed_latent_attention";
    expect_absorbable(function, weights.key_value);
    return attend<AbsorbedHeads<T>>(function, x, past, weights, options, trace);
}

#define ATTN_INSTANTIATE(T)                                                                                            \
    template decltype(latent_attention<T>) latent_attention<T>;                                                        \
    template decltype(absorbed_latent_attention<T>) absorbed_latent_attention<T>;                                      \
    template decltype(cached_latent_attention<T>) cached_latent_attention<T>;                                          \
    template decltype(cached_absorbed_latent_attention<T>) cached_absorbed_latent_attention<T>;
ATTN_INSTANTIATE(Matrix)
ATTN_INSTANTIATE(Tensor3)
#undef ATTN_INSTANTIATE

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
