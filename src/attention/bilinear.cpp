#include "attn/attention/bilinear.hpp"

#include "attn/ops/matmul.hpp"
#include "attn/shape.hpp"

namespace attn {

Attention bilinear_attention(const Matrix& queries, const Matrix& keys, const Matrix& values, const Matrix& bilinear,
                             const WeighingOptions& options, const Trace& caller)
{
    expect_agreement("bilinear_attention", "d_q", {"queries", queries, 1}, {"bilinear weights", bilinear, 0});
    expect_agreement("bilinear_attention", "d_k", {"keys", keys, 1}, {"bilinear weights", bilinear, 1});
    expect_agreement("bilinear_attention", "m", {"keys", keys, 0}, {"values", values, 0});
    const Trace trace = caller.module("bilinear_attention", [&] { return describe(options); });
    trace.input("queries[n, d_q]", queries);
    trace.input("keys[m, d_k]", keys);
    trace.input("values[m, d_v]", values);
    trace.input("bilinear_weights[d_q, d_k]", bilinear);

    // Turn each query into the key that it would like best, then compare as ever.
    const Matrix projected = trace("projected[n, d_k]", "queries @ bilinear_weights", matmul(queries, bilinear));
    const Matrix scores = trace("scores[n, m]", "projected @ keys.T", matmul(projected, transpose(keys)));

    return weigh_values(scores, "scores", values, options, trace);
}

} // namespace attn
