#pragma once

#include "tile.hpp"

/// @file
/// Gradients of a tile of scores. What is compiled for each instruction set: backward_tile.cpp, once per set.

namespace attn::fast {

/// The numbers that a tile of keys and a tile of queries are worked on with. Features are padded to whole panels, with
/// zeros.
struct BackwardTile {
    std::size_t d_k = 0, d_v = 0;
    std::size_t first = 0, columns = 0;                             ///< the keys
    std::size_t rows = 0;                                           ///< of queries
    float* keys = nullptr;                                          ///< (tile_columns, padded d_k)
    float *keys_by_feature = nullptr, *values_by_feature = nullptr; ///< packed as pack_keys() does
    float *grad_keys = nullptr, *grad_values = nullptr;             ///< (tile_columns, padded d), the sums so far
    float *queries = nullptr, *grad_context = nullptr;              ///< (tile_rows, padded d)
    float* weights = nullptr;      ///< (tile_rows, tile_columns): products, then finished scores, then weights
    float* grad_scores = nullptr;  ///< (tile_rows, tile_columns): first the gradients of the weights
    float* derivatives = nullptr;  ///< (tile_rows, tile_columns): of the softcap at each score
    float* grad_queries = nullptr; ///< (tile_rows, padded d_k): what these keys add
};

/// How many numbers the pointers of a BackwardTile need all together.
std::size_t backward_tile_size(std::size_t d_k, std::size_t d_v);

/// @param numbers  backward_tile_size() of them, aligned to 64 bytes; they are set to zeros
BackwardTile backward_tile_in(float* numbers, std::size_t d_k, std::size_t d_v);

/// A part of the work on a tile, in this order.
enum class BackwardPart { products, scores, weights, grad_values, grad_weights, grad_scores, grad_keys };

/// Sees each part that is done.
class BackwardListener {
public:
    virtual ~BackwardListener() = default;
    virtual void on_part(BackwardPart part, const BackwardTile& tile) = 0;
};

/// What is known of the queries of a tile.
struct BackwardRows {
    const TileScoring& scoring;
    const float *largest, *sum;
    const float* mean_gradient; ///< D: the sum of the gradients of the weights, each times its weight
};

/// Adds to grad_keys and grad_values what the queries of the tile contribute, and computes what they get.
/// @param listener  nullptr: none
void backward_tile(const BackwardTile& tile, const BackwardRows& rows, BackwardListener* listener);

/// The sum of the products of two rows, for each of some rows.
///
/// The terms are added as multiply() adds them. So D has the same bits as the gradient of a weight of 1, and their
/// difference is 0, as it has to be: where scores are large, most weights are 1 or 0.
void row_products(const float* left, std::size_t left_stride, const float* right, std::size_t right_stride,
                  std::size_t rows, std::size_t count, float* products);

} // namespace attn::fast
