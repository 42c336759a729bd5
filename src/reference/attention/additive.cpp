#include "attn/reference/attention/additive.hpp"

#include "attn/core/memory.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/terms.hpp"

namespace attn {
namespace {

/// query_part[:, None, :]: a row for each query, to which those of all keys are added.
Term<Tensor3> beside_each(const Term<Matrix>& queries)
{
    return {Tensor3(xt::view(*queries, xt::all(), xt::newaxis(), xt::all())),
            with_suffix(queries.wording(), "[:, None, :]")};
}

Attention weighed(Term<Matrix> scores, const Term<Matrix>& values, const WeighingOptions& options, const Trace& trace)
{
    auto [context, weights] = weigh_values(std::move(scores), values, options, trace);
    return {Matrix(std::move(context)), Matrix(std::move(weights))};
}

/// Every query's row followed by every key's: (n, m, d_q + d_k).
Tensor3 concatenate_pairs(const Matrix& queries, const Matrix& keys)
{
    const std::size_t d_q = queries.shape(1);
    Tensor3 pairs = xt::zeros<double>({queries.shape(0), keys.shape(0), d_q + keys.shape(1)});
    xt::view(pairs, xt::all(), xt::all(), xt::range(0, d_q)) = xt::view(queries, xt::all(), xt::newaxis(), xt::all());
    xt::view(pairs, xt::all(), xt::all(), xt::range(d_q, pairs.shape(2))) =
        xt::view(keys, xt::newaxis(), xt::all(), xt::all());
    return pairs;
}

} // namespace

Attention additive_attention(const Matrix& q, const Matrix& k, const Matrix& v, const AdditiveWeights& weights,
                             const WeighingOptions& options, const Trace& caller)
{
    expect_agreement("additive_attention", "d_q", {"queries", q, 1}, {"query weights", weights.query, 0});
    expect_agreement("additive_attention", "d_k", {"keys", k, 1}, {"key weights", weights.key, 0});
    expect_agreement("additive_attention", "d_hidden", {"query weights", weights.query, 1},
                     {"key weights", weights.key, 1});
    expect_agreement("additive_attention", "d_hidden", {"query weights", weights.query, 1},
                     {"score weights", weights.score, 0});
    expect_agreement("additive_attention", "m", {"keys", k, 0}, {"values", v, 0});
    const Trace trace = caller.module("additive_attention", [&] { return describe(options); });
    const Term queries = trace.input("queries[n, d_q]", Term(q));
    const Term keys = trace.input("keys[m, d_k]", Term(k));
    const Term values = trace.input("values[m, d_v]", Term(v));
    const Term query_weights = trace.input("query_weights[d_q, d_hidden]", Term(weights.query));
    const Term key_weights = trace.input("key_weights[d_k, d_hidden]", Term(weights.key));
    const Term score_weights = trace.input("score_weights[d_hidden]", Term(weights.score));

    // Project queries and keys to one size: each once, not once per pair.
    const Term query_part = trace("query_part[n, d_hidden]", matmul(queries, query_weights));
    const Term key_part = trace("key_part[m, d_hidden]", matmul(keys, key_weights));

    // Every pair has d_hidden hidden units; their dot product with score_weights is its score.
    expect_memory("hidden", {q.shape(0), k.shape(0), weights.score.size()});
    const Term hidden = trace("hidden[n, m, d_hidden]", tanh(beside_each(query_part) + key_part));
    return weighed(trace("scores[n, m]", matmul(hidden, score_weights)), values, options, trace);
}

ConcatenatedWeights concatenate(const AdditiveWeights& weights)
{
    return {concat_rows(weights.query, weights.key), weights.score};
}

Attention concatenated_attention(const Matrix& q, const Matrix& k, const Matrix& v, const ConcatenatedWeights& weights,
                                 const WeighingOptions& options, const Trace& caller)
{
    if (q.shape(1) + k.shape(1) != weights.hidden.shape(0))
        throw ShapeError("concatenated_attention: queries ", shape_of(q), ", keys ", shape_of(k),
                         " and hidden weights ", shape_of(weights.hidden),
                         " must agree in d_q + d_k, the features of a pair");
    expect_agreement("concatenated_attention", "d_hidden", {"hidden weights", weights.hidden, 1},
                     {"score weights", weights.score, 0});
    expect_agreement("concatenated_attention", "m", {"keys", k, 0}, {"values", v, 0});
    const Trace trace = caller.module("concatenated_attention", [&] { return describe(options); });
    const Term queries = trace.input("queries[n, d_q]", Term(q));
    const Term keys = trace.input("keys[m, d_k]", Term(k));
    const Term values = trace.input("values[m, d_v]", Term(v));
    const Term hidden_weights = trace.input("hidden_weights[d_pair, d_hidden]", Term(weights.hidden));
    const Term score_weights = trace.input("score_weights[d_hidden]", Term(weights.score));

    // Put every query beside every key, and apply the hidden layer to each pair.
    expect_memory("pairs", {q.shape(0), k.shape(0), weights.hidden.shape(0)});
    const Term pairs = trace("pairs[n, m, d_pair]",
                             "concat(repeat(queries[:, None, :], keys.shape[0], axis=1), "
                             "repeat(keys[None, :, :], queries.shape[0], axis=0), axis=2)",
                             Term(concatenate_pairs(*queries, *keys)));
    const Term hidden = trace("hidden[n, m, d_hidden]", tanh(matmul(pairs, hidden_weights)));
    return weighed(trace("scores[n, m]", matmul(hidden, score_weights)), values, options, trace);
}

} // namespace attn
