#pragma once

#include "attn/reference/ops/float_product.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

/// The classifier of reviews in float32, a few texts at a time.
namespace attn::train {

struct ReviewSizes {
    std::size_t words, d_model, heads, d_k, d_v; ///< words of a text; d_k and d_v of a head

    std::size_t keys() const { return heads * d_k; }
    std::size_t values() const { return heads * d_v; }
};

/// The weights behind the embedding, or their gradients.
template <class Number>
struct ReviewMaps {
    BasicView<Number> query, key, value, output, bias; ///< output (h d_v, 1), bias (1, 1)
};

/// Where one thread computes.
struct ReviewSpace {
    std::vector<float> query, key, grad_query, grad_key; ///< (texts * n, h d_k)
    std::vector<float> weights;                          ///< (h, n, n) of one text
    std::vector<float> means, grad_means;                ///< (h, n): each key's mean weight, and its gradient
    std::vector<float> mixed, grad_mixed;                ///< (h, d_model): words averaged with these weights
    std::vector<float> pooled, grad_pooled;              ///< (h d_v)
};

/// Some texts of a batch.
struct ReviewBlock {
    std::size_t texts;
    ConstView tokens;           ///< (texts * n, d_model): embedded words with their positions
    const float* dropout;       ///< (texts, h d_v); nullptr without dropout
    const std::int64_t* labels; ///< of each text; only for gradients
};

/// The logit of each text.
void review_logits(const ReviewBlock& block, const ReviewSizes& sizes, const ReviewMaps<const float>& maps,
                   ReviewSpace& space, double* logits);

/// The same, and the gradients of the sum of their losses times a share.
/// @param grad         gets sums
/// @param grad_tokens  is replaced
void review_gradients(const ReviewBlock& block, const ReviewSizes& sizes, const ReviewMaps<const float>& maps,
                      double share, ReviewSpace& space, double* logits, const ReviewMaps<float>& grad,
                      const View& grad_tokens);

} // namespace attn::train
