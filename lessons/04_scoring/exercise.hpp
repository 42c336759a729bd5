#pragma once

#include "attn/reference/attention/additive.hpp"

/// The additive score of one pair: w_v . tanh(q W_q + k W_k).
/// @param query    (d_q)
/// @param key      (d_k)
/// @param weights  see AdditiveWeights: W_q is query, W_k is key, w_v is score
double my_additive_score(const attn::Vector& query, const attn::Vector& key,
                         const attn::AdditiveWeights& weights);

/// The bilinear score of one pair: q . W k.
/// @param query     (d_q)
/// @param key       (d_k)
/// @param bilinear  W, (d_q, d_k)
double my_bilinear_score(const attn::Vector& query, const attn::Vector& key,
                         const attn::Matrix& bilinear);
