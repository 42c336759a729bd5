#include "attn/reference/layers/pooler.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/error.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/layers/activation_kind.hpp"
#include "attn/reference/layers/residual.hpp"
#include "attn/reference/ops/terms.hpp"

#include <algorithm>
#include <string>

namespace attn {
namespace {

constexpr Choice<PooledToken> pooled_tokens[] = {{PooledToken::first, "first"},
                                                 {PooledToken::last, "last"},
                                                 {PooledToken::of_id, "of-id"},
                                                 {PooledToken::highest_id, "highest-id"},
                                                 {PooledToken::query, "query"}};

/// Where each sequence's row of ids begins.
template <class Ids, class Work>
void for_each_sequence(Ids& ids, const Work& work)
{
    const auto n = static_cast<std::ptrdiff_t>(ids.shape().back());
    for (auto row = ids.begin(); row != ids.end(); row += n)
        work(row, row + n);
}

/// The first token of each sequence that has a certain id, or the highest one.
template <Sequence T, class Ids>
Term<T> token_by_id(const Term<T>& x, const Ids& given, const PoolerDescription& description, const Trace& trace)
{
    Shape of_tokens = shape_of(x);
    of_tokens.pop_back();
    if (shape_of(given) != of_tokens)
        throw ShapeError("pool: there are ids ", shape_of(given), ", expected one for each token, ", of_tokens);
    const bool is_highest = description.token == PooledToken::highest_id;
    const std::string id = std::to_string(description.id), n = std::to_string(of_tokens.back());
    Ids ends = trace.shared_input("ids[(b,) n]", given);
    for_each_sequence(ends, [&](auto begin, auto end) {
        const std::int64_t wanted =
            is_highest ? *std::ranges::max_element(begin, end) : static_cast<std::int64_t>(description.id);
        if (std::find(begin, end, wanted) == end)
            throw Error("pool: a sequence has no token of id ", id,
                        ", the end of a text, which stands for all of them: give it one");
        std::transform(begin, end, begin, [&](std::int64_t one) { return one == wanted ? 1 : 0; });
    });
    ends = trace("ends[(b,) n]", "1 * (ids == " + (is_highest ? "max(ids, axis=-1, keepdims=True)" : id) + ")",
                 std::move(ends));
    Ids chosen = ends;
    for_each_sequence(chosen, [](auto begin, auto end) {
        std::int64_t seen = 0;
        std::transform(begin, end, begin, [&](std::int64_t one) { return (seen += one) == 1 ? one : 0; });
    });
    chosen = trace("chosen[(b,) n]", "ends * (ends @ (arange(" + n + ")[:, None] <= arange(" + n + ")) == 1)",
                   std::move(chosen));
    T weights = [&] {
        if constexpr (std::same_as<T, Tensor3>)
            return T(typename T::shape_type{x.shape(0), 1, x.shape(1)});
        else
            return T(typename T::shape_type{1, x.shape(0)});
    }();
    std::ranges::copy(chosen, weights.begin());
    return trace("end[(b,) one, d_model]", std::same_as<T, Tensor3> ? "chosen[:, None] @ x" : "chosen[None] @ x",
                 Term<T>(matmul(weights, *x)));
}

/// What a learned query gets that attends to all tokens.
template <Sequence T>
Term<T> attend(const Term<T>& x, const PoolerWeights& weights, const PoolerDescription& description,
               const OptionalMask& given_mask, const Trace& trace)
{
    if (!weights.attention)
        throw Error("pool: there is a query, and the weights have no attention");
    const Term query = trace.input("query[d_model]", Term(*weights.query));
    const OptionalMask mask = share("mask[(b,) one, n]", given_mask, trace);
    const Trace inside = trace.scope("attention");
    if (mask)
        inside.alias("mask", "mask");
    const Term<T> row = [&] {
        if constexpr (std::same_as<T, Tensor3>)
            return repeat(in_front(in_front(query)), x.shape(0), 0);
        else
            return in_front(query);
    }();
    const Term queries = inside.input("x[(b,) n, d_model]", row);
    const Term memory = inside.input("memory[(b,) m, d_memory]", x);
    return multi_head_attention(Sources(queries, memory), *weights.attention,
                                {.heads = description.heads, .mask = mask}, inside)
        .output;
}

/// The row that stands for all tokens.
template <Sequence T>
Term<T> row_of(const Term<T>& x, const PoolerWeights& weights, const PoolerDescription& description,
               const PoolerInputs<T>& inputs, const Trace& trace)
{
    const bool is_described = description.token == PooledToken::query;
    if (weights.query.has_value() != is_described)
        throw Error("pool: the weights have ", is_described ? "no query" : "a query",
                    ", and the description says that ",
                    is_described ? "one attends to all tokens" : "one of the tokens stands for all");
    const std::size_t n = x.shape(token_axis<T>);
    if (n == 0)
        throw ShapeError("pool: there are no tokens");
    switch (description.token) {
    case PooledToken::first:
        return trace("first[(b,) one, d_model]", rows(x, 0, 1));
    case PooledToken::last:
        return trace("last[(b,) one, d_model]", rows(x, n - 1, n));
    case PooledToken::of_id:
    case PooledToken::highest_id:
        if (inputs.ids == nullptr)
            throw Error("pool: an id says which token stands for all of them, and there are no ids");
        return token_by_id(x, *inputs.ids, description, trace);
    case PooledToken::query:
        return attend(x, weights, description, inputs.mask, trace);
    }
    throw Error("pool: no such token");
}

} // namespace

std::string_view name_of(PooledToken token) { return row_for<pooled_tokens>(token).name; }

template <Sequence T>
T pool(const T& tokens, const PoolerWeights& weights, const PoolerDescription& description,
       const PoolerInputs<T>& inputs, const Trace& caller)
{
    const Trace trace = caller.module("pool", [&] {
        return StepOptions{{"token", std::string(name_of(description.token))}};
    });
    const Term x = trace.input("x[(b,) n, d_model]", Term(tokens));

    // Take one row for all tokens.
    const Term row = row_of<Value<T>>(x, weights, description, {inputs.ids, inputs.mask}, trace);

    // Normalise it, and map it.
    Term pooled = weights.norm ? norm(row, *weights.norm, description.norm, trace.scope("norm")) : row;
    if (weights.feed_forward) {
        const Term mapped = feed_forward(pooled, *weights.feed_forward, {.activation = description.activation},
                                         trace.scope("feed_forward"));
        pooled = trace("residual[(b,) one, d_model]", row + added_to(row, "pool", "feed_forward", mapped));
    }
    if (weights.map)
        pooled = linear(pooled, *weights.map,
                        {.name = "hidden", .d_in = "d_model", .d_out = "d_pooled", .tokens = "one"}, trace);
    return T(description.has_tanh ? trace("pooled[(b,) one, d_pooled]", tanh(pooled)) : trace.alias("pooled", pooled));
}

ATTN_MAKE_FOR_SEQUENCES(pool)

} // namespace attn
