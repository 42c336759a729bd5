#include "attn/reference/attention/bilinear.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/terms.hpp"
#include "scores_memory.hpp"

namespace attn {

Attention bilinear_attention(const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& weights,
                             const WeighingOptions& options, const Trace& caller)
{
    expect_agreement("bilinear_attention", "d_q", {"queries", q, 1}, {"bilinear weights", weights, 0});
    expect_agreement("bilinear_attention", "d_k", {"keys", k, 1}, {"bilinear weights", weights, 1});
    expect_agreement("bilinear_attention", "m", {"keys", k, 0}, {"values", v, 0});
    const Trace trace = caller.module("bilinear_attention", [&] { return describe(options); });
    const Term queries = trace.input("queries[n, d_q]", Term(q));
    const Term keys = trace.input("keys[m, d_k]", Term(k));
    const Term values = trace.input("values[m, d_v]", Term(v));
    const Term bilinear = trace.input("bilinear_weights[d_q, d_k]", Term(weights));

    // Map each query by the bilinear matrix, then compare as in dot-product attention.
    expect_memory_for_scores(q, k);
    const Term projected = trace("projected[n, d_k]", matmul(queries, bilinear));
    Term scores = trace("scores[n, m]", matmul(projected, transpose(keys)));

    auto [context, attended] = weigh_values(std::move(scores), values, options, trace);
    return {Matrix(std::move(context)), Matrix(std::move(attended))};
}

} // namespace attn
