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
