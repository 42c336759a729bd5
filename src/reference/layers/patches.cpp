#include "attn/reference/layers/patches.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/batch.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/terms.hpp"

#include <algorithm>
#include <numbers>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

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
        throw ShapeError("embed_patches: pixel_values ", image, ", expected ", kernel[1],
                         " channels of a whole number of patches, ", kernel[2], " by ", kernel[3]);
    for (const auto& [name, vector] : {std::pair("bias", &weights.bias),
                                       {"class_token", &weights.class_token},
                                       {"distillation_token", &weights.distillation_token}})
        if (*vector)
            expect_agreement("embed_patches", "d_model", {"kernel", weights.kernel, 0}, {name, **vector, 0});
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

/// Tokens before those of each image.
Matrix with_first(const Matrix& first, const Matrix& given, std::size_t images)
{
    const std::size_t d = first.shape(1), of_image = given.shape(0) / images;
    Matrix tokens(Matrix::shape_type{images * (of_image + first.shape(0)), d});
    double* next = tokens.data();
    for (std::size_t image = 0; image < images; ++image) {
        next = std::copy(first.begin(), first.end(), next);
        next = std::copy_n(given.data() + image * of_image * d, of_image * d, next);
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
        throw ShapeError("embed_patches: pixel_values ", shape, " has no image");
    const Trace trace = caller.module("embed_patches");

    // Cut the image into patches.
    const Image& pixels = trace.input("pixel_values[(b,) channels, height, width]", given);
    const T patches = trace(
        "patches[(b,) patches, d_patch]", [&] { return formula_of_patches(shape, grid); },
        as<T>(cut(pixels.data(), images, grid), images));

    // Map each patch, all by the same matrix.
    const Tensor4& kernel = trace.input("kernel[d_model, channels, patch_height, patch_width]", weights.kernel);
    const std::size_t d_model = kernel.shape(0);
    Matrix map(Matrix::shape_type{d_model, grid.pixels()});
    std::copy(kernel.begin(), kernel.end(), map.begin());
    T mapped = matmul(patches, transpose(map));
    if (weights.bias)
        mapped += trace.input("bias[d_model]", *weights.bias);
    const T embedded = trace(
        "embedded[(b,) patches, d_model]",
        [&] {
            return "patches @ reshape(kernel, " + std::to_string(d_model) + ", " + std::to_string(grid.pixels()) +
                   ").T" + (weights.bias ? " + bias" : "");
        },
        std::move(mapped));

    // Put those tokens before them that are no patches.
    constexpr bool is_batch = std::same_as<T, Tensor3>;
    std::string before;
    std::vector<Matrix> first;
    const auto put_first = [&](const std::string& one, Matrix rows) {
        first.push_back(std::move(rows));
        before += is_batch ? "repeat(" + one + ", " + std::to_string(images) + ", axis=0), " : one + ", ";
    };
    for (const auto& [name, token] :
         {std::pair("class_token", &weights.class_token), {"distillation_token", &weights.distillation_token}})
        if (*token)
            put_first(std::string(name) + (is_batch ? "[None, None, :]" : "[None, :]"),
                      *in_front(Term(trace.input(std::string(name) + "[d_model]", **token))));
    if (const auto& registers = weights.register_tokens)
        put_first(is_batch ? "register_tokens[None, :, :]" : "register_tokens",
                  trace.input("register_tokens[registers, d_model]", *registers));
    if (first.empty()) {
        trace.alias("output", "embedded");
        return embedded;
    }
    Matrix tokens = [&] {
        if constexpr (is_batch)
            return tokens_of(embedded);
        else
            return embedded;
    }();
    for (const Matrix& rows : first | std::views::reverse)
        tokens = with_first(rows, tokens, images);
    return trace("output[(b,) n, d_model]", "concat(" + before + "embedded, axis=" + (is_batch ? "1)" : "0)"),
                 as<T>(tokens, images));
}

} // namespace

Matrix patch_coordinates(const Shape& image, const PatchWeights& weights, const Trace& trace)
{
    const Grid grid = grid_of(image, weights);
    const std::size_t before = weights.class_token.has_value() + weights.distillation_token.has_value() +
                               (weights.register_tokens ? weights.register_tokens->shape(0) : 0);
    Matrix coordinates = xt::zeros<double>({std::size_t{2}, before + grid.patches()});
    const auto from_middle = [](std::size_t i, std::size_t count) {
        return 2 * std::numbers::pi * ((2 * static_cast<double>(i) + 1) / static_cast<double>(count) - 1);
    };
    for (std::size_t i = 0; i < grid.patches(); ++i) {
        coordinates(0, before + i) = from_middle(i / grid.columns, grid.rows);
        coordinates(1, before + i) = from_middle(i % grid.columns, grid.columns);
    }
    const auto text = [](std::size_t number) { return std::to_string(number); };
    const std::string places = "arange(" + text(grid.patches()) + ")", k = text(grid.columns);
    const auto axis = [&](const std::string& which, const std::string& count) {
        return "pad((2 * (" + places + which + k + ") + 1) / " + count + " - 1, " + text(before) +
               ", 0, axis=0)[None, :]";
    };
    return trace("coordinates[axes, n]",
                 "2 * pi * concat(" + axis(" // ", text(grid.rows)) + ", " + axis(" % ", k) + ", axis=0)",
                 std::move(coordinates));
}

Matrix embed_patches(const Tensor3& pixel_values, const PatchWeights& weights, const Trace& trace)
{
    return embed<Matrix>(pixel_values, weights, trace);
}

Tensor3 embed_patches(const Tensor4& pixel_values, const PatchWeights& weights, const Trace& trace)
{
    return embed<Tensor3>(pixel_values, weights, trace);
}

} // namespace attn
