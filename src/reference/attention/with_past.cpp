#include "attn/reference/attention/with_past.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/heads.hpp"

#include <string>

namespace attn {
namespace {

/// How keys, or values, become those that scores are made of: the new ones, after those of the past, for each query head.
struct KeyValueNames {
    std::string what;     ///< "keys"
    std::string features; ///< "d_k"
    bool has_past, is_shared;
    bool has_heads;

    std::string joined() const { return (is_shared ? "group_" : "") + what; }
    /// The name of the given ones.
    std::string given() const { return has_past ? "new_" + what : joined(); }

    std::string label(const std::string& step, const std::string& tokens) const
    {
        const bool is_grouped = has_heads && is_shared && step != what;
        return step + (is_grouped ? "[b, g, " : "[(b,) ") + tokens + ", " + features + "]";
    }
    std::string given_label() const { return label(given(), has_past ? "new" : "m"); }
};

template <Attending T>
T after_past(const KeyValueNames& names, const T& added, const T& past, const Trace& trace)
{
    const std::string name = "past_" + names.what;
    expect_same_batch("attention", name, past, names.what, added);
    expect_agreement("attention", names.features, {name, past, feature_axis<T>}, {names.what, added, feature_axis<T>});
    const T& before = trace.input(names.label(name, "past"), past);
    return trace(
        names.label(names.joined(), "m"),
        [&] { return "concat(" + name + ", " + names.given() + ", axis=" + std::to_string(token_axis<T>) + ")"; },
        concat_rows(before, added));
}

template <Attending T>
T for_each_head(const KeyValueNames& names, const T& joined, std::size_t heads, const Trace& trace)
{
    if constexpr (std::same_as<T, Tensor4>) {
        const std::size_t times = heads / joined.shape(1);
        if (names.is_shared)
            return trace(
                names.label(names.what, "m"),
                [&] { return "repeat(" + names.joined() + ", " + std::to_string(times) + ", axis=1)"; },
                repeat_heads(joined, times));
    }
    return joined;
}

/// All keys, or all values, for each query head.
template <Attending T>
T completed(const KeyValueNames& names, const T& given, const T* past, std::size_t heads, const Trace& trace)
{
    const T& added = trace.input(names.given_label(), given);
    return for_each_head(names, past == nullptr ? added : after_past(names, added, *past, trace), heads, trace);
}

void expect_shared_evenly(std::size_t heads, std::size_t groups)
{
    if (groups == 0 || heads % groups != 0)
        throw ShapeError("attention: " + std::to_string(heads) + " query heads can't be divided evenly among " +
                         std::to_string(groups) + " key/value heads");
}

} // namespace

template <Attending T>
AttentionOf<T> attention_with_past(const T& given_queries, const T& keys, const T& values,
                                   const std::optional<PastOf<T>>& past, const AttentionOptions& options,
                                   const Trace& trace)
{
    std::size_t heads = 1, groups = 1;
    if constexpr (std::same_as<T, Tensor4>) {
        heads = given_queries.shape(1);
        groups = keys.shape(1);
        expect_shared_evenly(heads, groups);
        expect_agreement("attention", "g", {"keys", keys, 1}, {"values", values, 1});
    }
    const bool is_shared = heads != groups, has_heads = std::same_as<T, Tensor4>;
    const T& queries = trace.input("queries[(b,) n, d_k]", given_queries);

    // Put the new keys and values after those of the past, and give each query head those of its group.
    const T all_keys = completed({"keys", "d_k", past.has_value(), is_shared, has_heads}, keys,
                                 past ? &past->keys : nullptr, heads, trace);
    const T all_values = completed({"values", "d_v", past.has_value(), is_shared, has_heads}, values,
                                   past ? &past->values : nullptr, heads, trace);

    return scaled_dot_product_attention(queries, all_keys, all_values, options, trace);
}

namespace {

std::string comma_separated(const Shape& shape)
{
    std::string text;
    for (const std::size_t size : shape)
        text += ", " + std::to_string(size);
    return text;
}

/// The features of each head, which lie side by side.
template <Sequence T>
Tensor4 split(const std::string& label, const std::string& name, const T& packed, std::size_t heads, const Trace& trace)
{
    Tensor4 all = unpack_heads(packed, heads);
    const Shape by_token{all.shape(0), all.shape(2), heads, all.shape(3)};
    return trace(
        label, [&] { return "permute(reshape(" + name + comma_separated(by_token) + "), 0, 2, 1, 3)"; },
        std::move(all));
}

/// The heads side by side again.
template <Sequence T>
T merge(const Tensor4& context, const Trace& trace)
{
    Tensor3 packed = pack_heads(context);
    T output;
    if constexpr (std::same_as<T, Matrix>)
        output = xt::view(packed, 0, xt::all(), xt::all());
    else
        output = std::move(packed);
    const Shape shape = shape_of(output);
    return trace(
        "output[(b,) n, h_d_v]", [&] { return "reshape(permute(context, 0, 2, 1, 3)" + comma_separated(shape) + ")"; },
        std::move(output));
}

} // namespace

template <Sequence T>
T packed_attention(const T& given_query, const T& given_key, const T& given_value, const PackedCounts& counts,
                   const std::optional<PastOf<Tensor4>>& past, const AttentionOptions& options, const Trace& trace)
{
    expect_shared_evenly(counts.heads, counts.key_value_heads);
    const T& query = trace.input("query[(b,) n, h_d_k]", given_query);
    const T& key = trace.input("key[(b,) m, g_d_k]", given_key);
    const T& value = trace.input("value[(b,) m, g_d_v]", given_value);

    // Take the heads apart.
    const bool is_shared = counts.heads != counts.key_value_heads;
    const KeyValueNames of_keys{"keys", "d_k", past.has_value(), is_shared, true};
    const KeyValueNames of_values{"values", "d_v", past.has_value(), is_shared, true};
    const Tensor4 queries = split("queries[(b,) n, d_k]", "query", query, counts.heads, trace);
    const Tensor4 keys = split(of_keys.given_label(), "key", key, counts.key_value_heads, trace);
    const Tensor4 values = split(of_values.given_label(), "value", value, counts.key_value_heads, trace);

    // Attend in each head, and put the contexts side by side.
    return merge<T>(attention_with_past(queries, keys, values, past, options, trace).context, trace);
}

#define ATTN_INSTANTIATE(T)                                                                                            \
    template AttentionOf<T> attention_with_past(const T&, const T&, const T&, const std::optional<PastOf<T>>&,         \
                                                const AttentionOptions&, const Trace&);
ATTN_INSTANTIATE(Matrix)
ATTN_INSTANTIATE(Tensor3)
ATTN_INSTANTIATE(Tensor4)
#undef ATTN_INSTANTIATE

#define ATTN_INSTANTIATE(T)                                                                                            \
    template T packed_attention(const T&, const T&, const T&, const PackedCounts&,                                     \
                                const std::optional<PastOf<Tensor4>>&, const AttentionOptions&, const Trace&);
ATTN_INSTANTIATE(Matrix)
ATTN_INSTANTIATE(Tensor3)
#undef ATTN_INSTANTIATE

} // namespace attn
