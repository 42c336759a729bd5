#include "attn/reference/attention/additive.hpp"

#include "attn/core/memory.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/ops/activation.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"

namespace attn {
namespace {

/// Every query's row beside every key's: (n, m, d), from (n, d) and (m, d).
Tensor3 sum_pairs(const Matrix& queries, const Matrix& keys)
{
    return xt::view(queries, xt::all(), xt::newaxis(), xt::all()) + xt::view(keys, xt::newaxis(), xt::all(), xt::all());
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
    const Matrix& queries = trace.input("queries[n, d_q]", q);
    const Matrix& keys = trace.input("keys[m, d_k]", k);
    const Matrix& values = trace.input("values[m, d_v]", v);
    const Matrix& query_weights = trace.input("query_weights[d_q, d_hidden]", weights.query);
    const Matrix& key_weights = trace.input("key_weights[d_k, d_hidden]", weights.key);
    const Vector& score_weights = trace.input("score_weights[d_hidden]", weights.score);

    // Project queries and keys to one size: each once, not once per pair.
    const Matrix query_part =
        trace("query_part[n, d_hidden]", "queries @ query_weights", matmul(queries, query_weights));
    const Matrix key_part = trace("key_part[m, d_hidden]", "keys @ key_weights", matmul(keys, key_weights));

    // Every pair has d_hidden hidden units; their dot product with score_weights is its score.
    expect_memory("hidden", {queries.shape(0), keys.shape(0), weights.score.size()});
    const Tensor3 hidden = trace("hidden[n, m, d_hidden]", "tanh(query_part[:, None, :] + key_part)",
                                 attn::tanh(sum_pairs(query_part, key_part)));
    Matrix scores = trace("scores[n, m]", "hidden @ score_weights", matmul(hidden, score_weights));

    return weigh_values(std::move(scores), "scores", values, options, trace);
}

ConcatenatedWeights concatenate(const AdditiveWeights& weights)
{
    return {concat_rows(weights.query, weights.key), weights.score};
}

Attention concatenated_attention(const Matrix& q, const Matrix& k, const Matrix& v, const ConcatenatedWeights& weights,
                                 const WeighingOptions& options, const Trace& caller)
{
    if (q.shape(1) + k.shape(1) != weights.hidden.shape(0))
        throw ShapeError("concatenated_attention: queries " + to_string(shape_of(q)) + ", keys " +
                         to_string(shape_of(k)) + " and hidden weights " + to_string(shape_of(weights.hidden)) +
                         " must agree in d_q + d_k, the features of a pair");
    expect_agreement("concatenated_attention", "d_hidden", {"hidden weights", weights.hidden, 1},
                     {"score weights", weights.score, 0});
    expect_agreement("concatenated_attention", "m", {"keys", k, 0}, {"values", v, 0});
    const Trace trace = caller.module("concatenated_attention", [&] { return describe(options); });
    const Matrix& queries = trace.input("queries[n, d_q]", q);
    const Matrix& keys = trace.input("keys[m, d_k]", k);
    const Matrix& values = trace.input("values[m, d_v]", v);
    const Matrix& hidden_weights = trace.input("hidden_weights[d_pair, d_hidden]", weights.hidden);
    const Vector& score_weights = trace.input("score_weights[d_hidden]", weights.score);

    // Put every query beside every key, and apply the hidden layer to each pair.
    expect_memory("pairs", {queries.shape(0), keys.shape(0), weights.hidden.shape(0)});
    const Tensor3 pairs = trace("pairs[n, m, d_pair]",
                                "concat(repeat(queries[:, None, :], keys.shape[0], axis=1), "
                                "repeat(keys[None, :, :], queries.shape[0], axis=0), axis=2)",
                                concatenate_pairs(queries, keys));
    const Tensor3 hidden =
        trace("hidden[n, m, d_hidden]", "tanh(pairs @ hidden_weights)", attn::tanh(matmul(pairs, hidden_weights)));
    Matrix scores = trace("scores[n, m]", "hidden @ score_weights", matmul(hidden, score_weights));

    return weigh_values(std::move(scores), "scores", values, options, trace);
}

} // namespace attn
