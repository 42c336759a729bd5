#include "attn/reference/models/signal_model.hpp"

#include "attn/core/error.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/layers/activation.hpp"
#include "attn/reference/ops/terms.hpp"

#include <algorithm>
#include <string>

namespace attn {
namespace {

Matrix encode(const Matrix& tokens, const LanguageModelWeights& weights, const LanguageModelDescription& description,
              const Trace& trace, const std::optional<Matrix>& coordinates = {})
{
    return language_model(tokens, weights, description, coordinates, trace);
}

Tensor3 encode(const Tensor3& tokens, const LanguageModelWeights& weights, const LanguageModelDescription& description,
               const Trace& trace, const std::optional<Matrix>& coordinates = {})
{
    return language_model(tokens, Padding{}, weights, description, coordinates, trace);
}

/// An image or a sound is as large as what positions were learned for.
template <Sequence T>
void expect_all_positions(std::string_view model, const T& tokens, const LanguageModelWeights& weights)
{
    const std::size_t n = tokens.shape(token_axis<T>);
    if (weights.positions && weights.positions->shape(0) != n)
        throw ShapeError(std::string(model) + ": there are " + std::to_string(n) + " tokens, expected " +
                         std::to_string(weights.positions->shape(0)) + ", one for each learned position");
}

template <Sequence T, class Image>
T model_of_image(const Image& pixel_values, const LanguageModelWeights& weights,
                 const LanguageModelDescription& description, const Trace& caller)
{
    const auto* patches = std::get_if<PatchWeights>(&weights.embedding);
    if (patches == nullptr)
        throw Error("image_model: the weights have no patch embedding");
    const Shape shape = shape_of(pixel_values);
    const std::size_t height = shape[shape.size() - 2], width = shape.back();
    if (const auto& size = description.image; size && (size->height != height || size->width != width))
        throw ShapeError("image_model: pixel_values " + to_string(shape) + ", expected an image of " +
                         std::to_string(size->height) + " by " + std::to_string(size->width) + " pixels");
    const Trace trace = caller.module("image_model");
    const Image& image = trace.input("pixel_values[(b,) channels, height, width]", pixel_values);
    const Trace inside = trace.scope("patch_embedding", {{"pixel_values", "pixel_values"}});
    const T tokens = embed_patches(image, *patches, inside);
    expect_all_positions("image_model", tokens, weights);
    trace.alias("tokens", "patch_embedding.output");
    const auto rotates_along_axes = [](const BlockDescription& layer) {
        return layer.attention.rotary.axes.has_value();
    };
    if (std::ranges::any_of(description.layers, rotates_along_axes))
        return encode(tokens, weights, description, trace, patch_coordinates(shape, *patches, trace));
    return encode(tokens, weights, description, trace);
}

template <Sequence T>
T model_of_sound(const T& given, const LanguageModelWeights& weights, const LanguageModelDescription& description,
                 const Trace& caller)
{
    const auto* convolutions = std::get_if<std::vector<ConvolutionWeights>>(&weights.embedding);
    if (convolutions == nullptr || convolutions->empty() || convolutions->size() != description.convolutions.size())
        throw Error("sound_model: " + std::to_string(description.convolutions.size()) +
                    " convolutions are described, and the weights have " +
                    std::to_string(convolutions == nullptr ? 0 : convolutions->size()));
    const Trace trace = caller.module("sound_model");
    const Term features = trace.input("input_features[(b,) features, frames]", Term(given));

    // Make tokens of neighbouring frames.
    Term tokens = trace("frames[(b,) frames, features]", transpose(features));
    for (std::size_t i = 0; i < convolutions->size(); ++i) {
        const Trace inside = trace.scope("convolution", i);
        const Term mapped = convolution(tokens, (*convolutions)[i], description.convolutions[i], inside);
        tokens = activate("activated[(b,) n, d_model]", mapped, description.convolution_activation, inside);
    }
    expect_all_positions("sound_model", *tokens, weights);
    return encode(*trace.alias("tokens", tokens), weights, description, trace);
}

} // namespace

Matrix image_model(const Tensor3& pixel_values, const LanguageModelWeights& weights,
                   const LanguageModelDescription& description, const Trace& trace)
{
    return model_of_image<Matrix>(pixel_values, weights, description, trace);
}

Tensor3 image_model(const Tensor4& pixel_values, const LanguageModelWeights& weights,
                    const LanguageModelDescription& description, const Trace& trace)
{
    return model_of_image<Tensor3>(pixel_values, weights, description, trace);
}

Matrix image_model(const Matrix& pixel_values, const ImageSize& grid, const LanguageModelWeights& weights,
                   const LanguageModelDescription& given, const Trace& caller)
{
    const auto* map = std::get_if<LinearWeights>(&weights.embedding);
    if (map == nullptr)
        throw Error("image_model: the weights have no map of patches");
    if (pixel_values.shape(0) != grid.height * grid.width)
        throw ShapeError("image_model: pixel_values ", shape_of(pixel_values), ", expected ", grid.height * grid.width,
                         " patches, ", grid.height, " rows of ", grid.width);
    expect_agreement("image_model", "d_patch", {"pixel_values", pixel_values, 1}, {"map", map->weight, 0});
    const Trace trace = caller.module("image_model");
    const Term patches = trace.input("pixel_values[patches, d_patch]", Term(pixel_values));
    const Term mapped =
        linear(patches, *map, {.name = "mapped", .d_in = "d_patch", .d_out = "d_model", .tokens = "patches"}, trace);
    trace.alias("tokens", "mapped");
    LanguageModelDescription description = given;
    if (weights.positions)
        description.position_grid = grid;
    return encode(Matrix(mapped), weights, description, trace);
}

Matrix sound_model(const Matrix& input_features, const LanguageModelWeights& weights,
                   const LanguageModelDescription& description, const Trace& trace)
{
    return model_of_sound(input_features, weights, description, trace);
}

Tensor3 sound_model(const Tensor3& input_features, const LanguageModelWeights& weights,
                    const LanguageModelDescription& description, const Trace& trace)
{
    return model_of_sound(input_features, weights, description, trace);
}

} // namespace attn
