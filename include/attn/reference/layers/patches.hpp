#pragma once

#include "attn/core/tensor.hpp"
#include "attn/core/trace.hpp"

#include <cstddef>
#include <optional>

namespace attn {

/// The learned parameters of a patch embedding: a convolution whose windows lie side by side.
struct PatchWeights {
    Tensor4 kernel;                                ///< (d_model, channels, patch_height, patch_width)
    std::optional<Vector> bias = {};               ///< (d_model); CLIP has none
    std::optional<Vector> class_token = {};        ///< (d_model): stands before those of the patches; SigLIP has none
    std::optional<Vector> distillation_token = {}; ///< (d_model): follows the class token, in DeiT
    std::optional<Matrix> register_tokens = {};    ///< (registers, d_model): follow these, in DINOv3
};

/// The tokens of an image: one for each patch, row by row, a linear map of its pixels; and before them the class token, and
/// that of distillation, where the weights have them.
///
/// @param pixel_values  (channels, height, width), a whole number of patches high and wide
/// @param weights       the map, whose kernel says how large a patch is, and the class token
/// @param trace         | step         | shape                                           | formula |
///                      |--------------|-------------------------------------------------|---------|
///                      | pixel_values | ((b,) channels, height, width)                  |         |
///                      | patches      | ((b,) patches, d_patch)                         | reshape(permute(reshape(pixel_values, C, R, P, K, Q), 1, 3, 0, 2, 4), R * K, C * P * Q) |
///                      | kernel       | (d_model, channels, patch_height, patch_width)  |         |
///                      | bias         | (d_model,)                                      |         |
///                      | embedded     | ((b,) patches, d_model)                         | patches @ reshape(kernel, D, C * P * Q).T + bias |
///                      | class_token  | (d_model,)                                      |         |
///                      | output       | ((b,) n, d_model)                               | concat(class_token[None, :], embedded, axis=0) |
///
///                      where those of distillation and of registers follow the class token, `output` is another name of `embedded` without tokens before it,
///                      with the numbers in place of the channels C, the R rows of K patches, the P by Q pixels of a patch, and
///                      d_model D; in a batch, the first axis stays where it is, and the class token is repeated
/// @return (n, d_model), one token for each patch, after those before them
/// @throws ShapeError where the image is no whole number of patches, or has other channels than the kernel
/// @see Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", section 3.1;
///      Touvron et al. 2021, "Training data-efficient image transformers", section 4
Matrix embed_patches(const Tensor3& pixel_values, const PatchWeights& weights, const Trace& trace = {});
/// The same for a batch, (b, channels, height, width).
/// @return (b, n, d_model)
Tensor3 embed_patches(const Tensor4& pixel_values, const PatchWeights& weights, const Trace& trace = {});

/// Where the tokens of an image stand: the middles of its patches, 2 pi times as far from the image's as a side is long at most, down and
/// to the right; and in the middle those before the patches, which are then not rotated.
/// @param image    the shape of the pixels
/// @param trace    | step        | shape     | formula |
///                 |-------------|-----------|---------|
///                 | coordinates | (axes, n) | 2 * pi * concat(pad((2 * (arange(N) // K) + 1) / R - 1, F, 0, axis=0)[None, :], pad((2 * (arange(N) % K) + 1) / K - 1, F, 0, axis=0)[None, :], axis=0) |
///
///                 with the numbers in place of the N patches in R rows and K columns, after F other tokens
/// @see Siméoni et al. 2025, "DINOv3", section 3.2
Matrix patch_coordinates(const Shape& image, const PatchWeights& weights, const Trace& trace = {});

} // namespace attn
