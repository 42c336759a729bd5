#include "attn/reference/attention/bilinear.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "scores_memory.hpp"

namespace attn {

Attention bilinear_attention(const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& weights,
                             const WeighingOptions& options, const Trace& caller)
{
    expect_agreement("bilinear_attention", "d_q", {"queries", q, 1}, {"bilinear weights", weights, 0});
    expect_agreement("bilinear_attention", "d_k", {"keys", k, 1}, {"bilinear weights", weights, 1});
    expect_agreement("bilinear_attention", "m", {"keys", k, 0}, {"values", v, 0});
    const Trace trace = caller.module("bilinear_attention", [&] { return describe(options); });
    const Matrix& queries = trace.input("queries[n, d_q]", q);
    const Matrix& keys = trace.input("keys[m, d_k]", k);
    const Matrix& values = trace.input("values[m, d_v]", v);
    const Matrix& bilinear = trace.input("bilinear_weights[d_q, d_k]", weights);

    // Map each query by the bilinear matrix, then compare as in dot-product attention.
    expect_memory_for_scores(queries, keys);
    const Matrix projected = trace("projected[n, d_k]", "queries @ bilinear_weights", matmul(queries, bilinear));
    Matrix scores = trace("scores[n, m]", "projected @ keys.T", matmul(projected, transpose(keys)));

    return weigh_values(std::move(scores), "scores", values, options, trace);
}

} // namespace attn
