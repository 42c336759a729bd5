#pragma once

#include "attn/reference/layers/feed_forward.hpp"
#include "attn/reference/layers/multi_head.hpp"
#include "attn/reference/ops/random.hpp"

namespace attn {

/// @name Untrained weights: uniform random numbers between -1 and 1, biases between -bias
/// and bias
/// @{
inline LinearWeights random_map(RandomNumbers& numbers, std::size_t from, std::size_t to,
                                double bias = 1)
{
    Matrix weight = numbers.matrix(from, to);
    return {std::move(weight), numbers.vector(to, bias)};
}

inline MultiHeadWeights random_heads(RandomNumbers& numbers, std::size_t d,
                                     double bias = 1)
{
    MultiHeadWeights weights;
    for (LinearWeights* map : {&weights.query, &weights.key, &weights.value})
        *map = random_map(numbers, d, d, bias);
    weights.output = random_map(numbers, d, d, bias);
    return weights;
}

inline FeedForwardWeights random_feed_forward(RandomNumbers& numbers, std::size_t d,
                                              std::size_t d_ff, double bias = 1)
{
    LinearWeights hidden = random_map(numbers, d, d_ff, bias);
    return {std::move(hidden), random_map(numbers, d_ff, d, bias)};
}
/// @}

} // namespace attn
