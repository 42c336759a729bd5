#include "attn/reference/attention/cost.hpp"

namespace attn {

ScoringCost dot_product_cost(const ScoringSizes& s) { return {s.n * s.m * s.d_k}; }

ScoringCost scaled_dot_product_cost(const ScoringSizes& s) { return {s.n * s.m * s.d_k + s.n * s.m}; }

ScoringCost additive_cost(const ScoringSizes& s)
{
    const std::uint64_t projections = (s.n * s.d_q + s.m * s.d_k) * s.d_hidden;
    const std::uint64_t hidden = s.n * s.m * s.d_hidden;
    return {projections + hidden, hidden};
}

ScoringCost concatenated_cost(const ScoringSizes& s)
{
    const std::uint64_t hidden = s.n * s.m * s.d_hidden;
    return {hidden * (s.d_q + s.d_k) + hidden, hidden};
}

ScoringCost bilinear_cost(const ScoringSizes& s) { return {s.n * s.d_q * s.d_k + s.n * s.m * s.d_k}; }

} // namespace attn
