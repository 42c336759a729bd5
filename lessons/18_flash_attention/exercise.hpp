#pragma once

#include "attn/core/tensor.hpp"

/// What attention to some of the keys gives: contexts that are finished, and what is
/// known of each query's softmax.
struct Part {
    attn::Matrix
        context; ///< (n, d_v); zeros where a query can attend to none of the keys
    attn::Vector largest; ///< (n): m, the largest score; -inf where there is none
    attn::Vector sum;     ///< (n): l, the sum of exp(score - m); 0 where there is none
};

/// Merges attention to the first keys and attention to the other keys.
/// @return (n, d_v): the context of attention to all keys; zeros where a query can attend
/// to none of them
attn::Matrix my_merged_context(const Part& first, const Part& second);
