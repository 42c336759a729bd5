#include "attn/reference/layers/patches.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/matmul.hpp"

#include <algorithm>
#include <string>

namespace attn {
namespace {

/// How an image is divided.
struct Grid {
    std::size_t channels, rows, height, columns, width; ///< rows of columns patches, each height by width pixels

    std::size_t patches() const { return rows * columns; }
    std::size_t pixels() const { return channels * height * width; } ///< of a patch, in all channels
};

Grid grid_of(const Shape& image, const PatchWeights& weights)
{
    const Shape kernel = shape_of(weights.kernel);
    const std::size_t height = image[image.size() - 2], width = image.back();
    if (element_count(kernel) == 0 || image[image.size() - 3] != kernel[1] || height == 0 || height % kernel[2] != 0 ||
        width == 0 || width % kernel[3] != 0)
        throw ShapeError("embed_patches: pixel_values " + to_string(image) + ", expected " + std::to_string(kernel[1]) +
                         " channels of a whole number of patches, " + std::to_string(kernel[2]) + " by " +
                         std::to_string(kernel[3]));
    for (const auto& [name, vector] : {std::pair("bias", &weights.bias), {"class_token", &weights.class_token}})
        expect_agreement("embed_patches", "d_model", {"kernel", weights.kernel, 0}, {name, *vector, 0});
    return {kernel[1], height / kernel[2], kernel[2], width / kernel[3], kernel[3]};
}

/// The pixels of each patch side by side, of all images one below the other.
Matrix cut(const double* pixels, std::size_t images, const Grid& grid)
{
    Matrix patches(Matrix::shape_type{images * grid.patches(), grid.pixels()});
    double* next = patches.data();
    const std::size_t line = grid.columns * grid.width, channel = grid.rows * grid.height * line;
    for (std::size_t image = 0; image < images; ++image)
        for (std::size_t row = 0; row < grid.rows; ++row)
            for (std::size_t column = 0; column < grid.columns; ++column)
                for (std::size_t c = 0; c < grid.channels; ++c)
                    for (std::size_t y = 0; y < grid.height; ++y)
                        next = std::copy_n(pixels + (image * grid.channels + c) * channel +
                                               (row * grid.height + y) * line + column * grid.width,
                                           grid.width, next);
    return patches;
}

std::string formula_of_patches(const Shape& image, const Grid& grid)
{
    const auto text = [](std::size_t number) { return std::to_string(number); };
    const bool is_batch = image.size() == 4;
    const std::string sequences = is_batch ? text(image.front()) + ", " : "";
    return "reshape(permute(reshape(pixel_values, " + sequences + text(grid.channels) + ", " + text(grid.rows) + ", " +
           text(grid.height) + ", " + text(grid.columns) + ", " + text(grid.width) + "), " +
           (is_batch ? "0, 2, 4, 1, 3, 5" : "1, 3, 0, 2, 4") + "), " + sequences + text(grid.patches()) + ", " +
           text(grid.pixels()) + ")";
}

/// The class token before those of each image.
Matrix with_class(const Matrix& embedded, std::size_t images, const Vector& class_token)
{
    const std::size_t d = class_token.size(), patches = embedded.shape(0) / images;
    Matrix tokens(Matrix::shape_type{images * (patches + 1), d});
    double* next = tokens.data();
    for (std::size_t image = 0; image < images; ++image) {
        next = std::copy(class_token.begin(), class_token.end(), next);
        next = std::copy_n(embedded.data() + image * patches * d, patches * d, next);
    }
    return tokens;
}

/// Tokens of all images as the sequence, or the sequences, that they are.
template <Sequence T>
T as(const Matrix& tokens, std::size_t images)
{
    if constexpr (std::same_as<T, Matrix>)
        return tokens;
    else
        return batch_of(tokens, images, tokens.shape(0) / images);
}

template <Sequence T, class Image>
T embed(const Image& given, const PatchWeights& weights, const Trace& caller)
{
    const Shape shape = shape_of(given);
    const Grid grid = grid_of(shape, weights);
    const std::size_t images = shape.size() == 4 ? shape.front() : 1;
    if (images == 0)
        throw ShapeError("embed_patches: pixel_values " + to_string(shape) + " has no image");
    const Trace trace = caller.module("embed_patches");

    // Cut the image into patches.
    const Image& pixels = trace.input("pixel_values[(b,) channels, height, width]", given);
    const T patches = trace(
        "patches[(b,) patches, d_patch]", [&] { return formula_of_patches(shape, grid); },
        as<T>(cut(pixels.data(), images, grid), images));

    // Map each patch, all by the same matrix.
    const Tensor4& kernel = trace.input("kernel[d_model, channels, patch_height, patch_width]", weights.kernel);
    const Vector& bias = trace.input("bias[d_model]", weights.bias);
    const std::size_t d_model = bias.size();
    Matrix map(Matrix::shape_type{d_model, grid.pixels()});
    std::copy(kernel.begin(), kernel.end(), map.begin());
    const T embedded = trace(
        "embedded[(b,) patches, d_model]",
        [&] {
            return "patches @ reshape(kernel, " + std::to_string(d_model) + ", " + std::to_string(grid.pixels()) +
                   ").T + bias";
        },
        T(matmul(patches, transpose(map)) + bias));

    // Put the class token before them.
    const Vector& class_token = trace.input("class_token[d_model]", weights.class_token);
    constexpr bool is_batch = std::same_as<T, Tensor3>;
    const auto formula = [&]() -> std::string {
        return is_batch ? "concat(repeat(class_token[None, None, :], " + std::to_string(images) +
                              ", axis=0), embedded, axis=1)"
                        : "concat(class_token[None, :], embedded, axis=0)";
    };
    if constexpr (is_batch)
        return trace("output[(b,) n, d_model]", formula,
                     as<T>(with_class(tokens_of(embedded), images, class_token), images));
    else
        return trace("output[(b,) n, d_model]", formula, with_class(embedded, 1, class_token));
}

} // namespace

Matrix embed_patches(const Tensor3& pixel_values, const PatchWeights& weights, const Trace& trace)
{
    return embed<Matrix>(pixel_values, weights, trace);
}

Tensor3 embed_patches(const Tensor4& pixel_values, const PatchWeights& weights, const Trace& trace)
{
    return embed<Tensor3>(pixel_values, weights, trace);
}

} // namespace attn
