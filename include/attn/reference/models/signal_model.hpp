#pragma once

#include "attn/reference/models/language_model.hpp"

namespace attn {

/// The encoder of an image, such as ViT: patches are its tokens. For each of them, and for the class token before them, the
/// last hidden state.
///
/// @param pixel_values  (channels, height, width), as large as the description says
/// @param weights       whose embedding are PatchWeights
/// @param description   of the layers; with the size of the image
/// @param trace         in patch_embedding the steps of embed_patches(), whose output is `tokens`; and those of
///                      language_model()
/// @return (n, d_model), a row more than patches
/// @throws ShapeError where the image has another size, or the table of positions other rows than there are tokens
/// @throws Error      where weights are of another model
/// @see Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words"
Matrix image_model(const Tensor3& pixel_values, const LanguageModelWeights& weights,
                   const LanguageModelDescription& description, const Trace& trace = {});
/// The same for a batch, (b, channels, height, width).
Tensor3 image_model(const Tensor4& pixel_values, const LanguageModelWeights& weights,
                    const LanguageModelDescription& description, const Trace& trace = {});

/// The same of an image whose patches are cut already, as SigLIP 2 takes it: of any size, to which the table of positions is resized.
/// @param pixel_values  (patches, d_patch): the pixels of each patch, row by row
/// @param grid          how many rows and columns of patches there are
/// @param weights       whose embedding is a LinearWeights
/// @param trace         | step         | shape              | formula                             |
///                      |--------------|--------------------|-------------------------------------|
///                      | pixel_values | (patches, d_patch) |                                     |
///                      | mapped       | (patches, d_model) | pixel_values @ mapped_weights + mapped_bias |
///
///                      with mapped_weights and mapped_bias before it; it is `tokens` of language_model(), whose steps follow, with those
///                      of resized_positions() in position_embedding
/// @return (patches, d_model)
/// @throws ShapeError where there are not as many patches as the grid has
/// @throws Error      where weights are of another model
Matrix image_model(const Matrix& pixel_values, const ImageSize& grid, const LanguageModelWeights& weights,
                   const LanguageModelDescription& description, const Trace& trace = {});

/// The encoder of a sound, such as Whisper's: convolutions along its frames make the tokens. For each of them the last hidden
/// state.
///
/// @param input_features  (features, frames), such as the logarithms of energies in bands of frequencies
/// @param weights         whose embedding are convolutions
/// @param description     of the layers; with the strides of the convolutions, and the activation after them
/// @param trace           | step                    | shape              | formula                          |
///                        |-------------------------|--------------------|----------------------------------|
///                        | input_features          | (features, frames) |                                  |
///                        | frames                  | (frames, features) | input_features.T                 |
///                        | convolution.0.x         | (frames, features) | = frames                         |
///                        | convolution.0.activated | (n, d_model)       | as activate() says, of `output`  |
///                        | convolution.1.x         | (n, d_model)       | = convolution.0.activated        |
///
///                        with the steps of convolution() in these scopes; the last `activated` is `tokens`, and the steps
///                        of language_model() follow
/// @return (n, d_model)
/// @throws ShapeError where the table of positions has other rows than there are tokens: a sound has a fixed length
/// @throws Error      where weights are of another model, or have not as many convolutions as are described
/// @see Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision", section 2.2
Matrix sound_model(const Matrix& input_features, const LanguageModelWeights& weights,
                   const LanguageModelDescription& description, const Trace& trace = {});
/// The same for a batch, (b, features, frames).
Tensor3 sound_model(const Tensor3& input_features, const LanguageModelWeights& weights,
                    const LanguageModelDescription& description, const Trace& trace = {});

} // namespace attn
