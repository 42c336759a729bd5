#pragma once

#include "attn/files/npz.hpp"
#include "attn/reference/models/language_model.hpp"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace attn::files {

/// A model's encoder, where a decoder stands beside it.
struct EncoderPart {
    LanguageModelDescription description;
    LanguageModelWeights weights;
};

/// A model as it is published: its weights, and what its configuration says of them.
struct Model {
    std::string family; ///< "llama"
    LanguageModelDescription description;
    LanguageModelWeights weights;
    std::vector<std::string> not_computed =
        {}; ///< tensors of parts that nothing is computed with, a line for each part
    /// What the decoder's cross-attention reads, see encoder_decoder(); the decoder is above, without a table of words where
    /// it has the encoder's.
    std::optional<EncoderPart> encoder = {};
};

/// Layers of a model: from the first, 0 unless given, to before the last; to the end unless given.
struct LayerRange {
    std::size_t first = 0;
    std::optional<std::size_t> last = {};
};

/// What a reader knows to change nothing.
struct Accepted {
    std::vector<std::string> fields = {};  ///< of the configuration, which nobody here knows
    std::vector<std::string> tensors = {}; ///< the beginnings of names of tensors to leave out, such as a classifier's
};

/// Which tensors of a folder some of its model's layers are computed with, for read_weights(). What stands before the layers,
/// such as the embedding, belongs to the first, and what stands after them, such as the logits' map, to the last.
/// @throws FileError as read_model(), or where the model has no such layers
NameFilter tensors_of(const std::filesystem::path& folder, const LayerRange& layers, const Accepted& accepted = {});

/// The model of a folder, as save_pretrained() of transformers writes it.
///
/// The file of the family (src/files/families) says what each field of the configuration does and what the tensors are called.
/// @param folder  with config.json
/// @param arrays  the tensors of the folder, see read_weights()
/// @param layers  which to take: tensors of others are passed over. Without the first, the model takes tokens
///                (n, d_model) in place of ids; without the last, its result is the tokens after the layers.
/// @param accepted  fields and tensors to pass over
/// @throws FileError     where there is no configuration, or it has a field or a value that is not known: what it changes could
///                       not be computed; where the model has no such layers
/// @throws WeightsError  where tensors are missing, left over, or have other shapes than the configuration says
/// @throws Error         where a field or a tensor is accepted that is not there, or is known
Model read_model(const std::filesystem::path& folder, NamedArrays arrays, const LayerRange& layers = {},
                 const Accepted& accepted = {});

} // namespace attn::files
