#include "attn/reference/attention/cost.hpp"

#include <algorithm>
#include <cstdlib>

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

AttentionCost full_attention_cost(std::uint64_t n, std::uint64_t d_k, std::uint64_t d_v)
{
    return {n * n * (d_k + d_v) + 2 * n * n, n * n};
}

AttentionCost restricted_attention_cost(std::uint64_t n, std::uint64_t d_k, std::uint64_t d_v,
                                        const Neighbourhood& neighbourhood)
{
    const Integers distances = distances_within(neighbourhood, n);
    std::uint64_t pairs = 0;
    for (const std::int64_t distance : distances)
        pairs += n - std::min(n, static_cast<std::uint64_t>(std::abs(distance)));
    const std::uint64_t columns = n * distances.size();
    return {pairs * (d_k + d_v) + 2 * columns, columns};
}

namespace {

/// Two maps for each of the gates of d_out units, and three products element by element.
EncodingCost recurrent_cost(const EncodingSizes& s, std::uint64_t gates, std::uint64_t exponentials)
{
    return {s.n * (gates * (s.d_in + s.d_out) * s.d_out + 3 * s.d_out), s.n * exponentials * s.d_out};
}

} // namespace

EncodingCost gru_cost(const EncodingSizes& s) { return recurrent_cost(s, 3, 3); }

EncodingCost lstm_cost(const EncodingSizes& s) { return recurrent_cost(s, 4, 5); } // tanh of the cell is the fifth

EncodingCost convolution_cost(const EncodingSizes& s, std::uint64_t width) { return {s.n * width * s.d_in * s.d_out}; }

EncodingCost self_attention_cost(const EncodingSizes& s)
{
    const AttentionCost attention = full_attention_cost(s.n, s.d_out, s.d_out);
    return {3 * s.n * s.d_in * s.d_out + attention.multiplications, attention.weights};
}

} // namespace attn
