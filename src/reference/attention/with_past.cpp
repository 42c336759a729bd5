#include "attn/reference/attention/with_past.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/terms.hpp"

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

/// All keys, or all values, for each query head.
template <Attending T>
Term<T> completed(const KeyValueNames& names, const Term<T>& given, const T* past, std::size_t heads,
                  const Trace& trace)
{
    Term all = trace.input(names.given_label(), given);
    if (past != nullptr) {
        const std::string name = "past_" + names.what;
        expect_same_batch("attention", name, *past, names.what, *given);
        expect_agreement("attention", names.features, {name, *past, feature_axis<T>},
                         {names.what, *given, feature_axis<T>});
        const Term before = trace.input(names.label(name, "past"), Term(*past));
        all = trace(names.label(names.joined(), "m"), concat_rows(before, all));
    }
    if constexpr (std::same_as<T, Tensor4>)
        if (names.is_shared)
            all = trace(names.label(names.what, "m"), repeat(all, heads / all.shape(1), 1));
    return all;
}

void expect_shared_evenly(std::size_t heads, std::size_t groups)
{
    if (groups == 0 || heads % groups != 0)
        throw ShapeError("attention: ", heads, " query heads can't be divided evenly among ", groups,
                         " key/value heads");
}

} // namespace

namespace {

template <Attending T>
AttentionOf<Term<T>> attend(const Term<T>& given_queries, const Term<T>& keys, const Term<T>& values,
                            const std::optional<PastOf<T>>& past, const AttentionOptions& options, const Trace& trace)
{
    std::size_t heads = 1, groups = 1;
    if constexpr (std::same_as<T, Tensor4>) {
        heads = given_queries.shape(1);
        groups = keys.shape(1);
        expect_shared_evenly(heads, groups);
        expect_agreement("attention", "g", {"keys", *keys, 1}, {"values", *values, 1});
    }
    const bool is_shared = heads != groups, has_heads = std::same_as<T, Tensor4>;
    const Term queries = trace.input("queries[(b,) n, d_k]", given_queries);

    // Put the new keys and values after those of the past, and give each query head those of its group.
    const Term all_keys = completed({"keys", "d_k", past.has_value(), is_shared, has_heads}, keys,
                                    past ? &past->keys : nullptr, heads, trace);
    const Term all_values = completed({"values", "d_v", past.has_value(), is_shared, has_heads}, values,
                                      past ? &past->values : nullptr, heads, trace);

    return scaled_dot_product_attention(queries, all_keys, all_values, options, trace);
}

/// The features of each head, which lie side by side: (b, h, n, d).
template <Sequence T>
Term<Tensor4> split(const std::string& label, const Term<T>& packed, std::size_t heads, const Trace& trace)
{
    const std::size_t n = packed.shape(token_axis<T>), width = packed.shape(feature_axis<T>);
    const std::size_t batch = std::same_as<T, Matrix> ? 1 : packed.shape(0);
    if (heads == 0 || width % heads != 0)
        throw ShapeError("packed_attention: ", width, " features can't be divided evenly among ", heads, " heads");
    return trace(label, permute(reshape<Tensor4>(packed, {batch, n, heads, width / heads}), {0, 2, 1, 3}));
}

} // namespace

template <Attending T>
AttentionOf<T> attention_with_past(const T& queries, const T& keys, const T& values,
                                   const std::optional<PastOf<T>>& past, const AttentionOptions& options,
                                   const Trace& trace)
{
    auto [context, weights] = attend(Term(queries), Term(keys), Term(values), past, options, trace);
    return {std::move(context).take(), std::move(weights).take()};
}

template <Sequence T>
T packed_attention(const T& given_query, const T& given_key, const T& given_value, const PackedCounts& counts,
                   const std::optional<PastOf<Tensor4>>& past, const AttentionOptions& options, const Trace& trace)
{
    expect_shared_evenly(counts.heads, counts.key_value_heads);
    const Term query = trace.input("query[(b,) n, h_d_k]", Term(given_query));
    const Term key = trace.input("key[(b,) m, g_d_k]", Term(given_key));
    const Term value = trace.input("value[(b,) m, g_d_v]", Term(given_value));

    // Take the heads apart.
    const bool is_shared = counts.heads != counts.key_value_heads;
    const KeyValueNames of_keys{"keys", "d_k", past.has_value(), is_shared, true};
    const KeyValueNames of_values{"values", "d_v", past.has_value(), is_shared, true};
    const Term queries = split("queries[(b,) n, d_k]", query, counts.heads, trace);
    const Term keys = split(of_keys.given_label(), key, counts.key_value_heads, trace);
    const Term values = split(of_values.given_label(), value, counts.key_value_heads, trace);

    // Attend in each head, and put the contexts side by side.
    const Term context = attend(queries, keys, values, past, options, trace).context;
    Shape shape = shape_of(*query);
    shape.back() = counts.heads * context.shape(3);
    return T(trace("output[(b,) n, h_d_v]", reshape<T>(permute(context, {0, 2, 1, 3}), shape)));
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
