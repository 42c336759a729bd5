#pragma once

#include "attn/files/npz.hpp"
#include "attn/reference/models/language_model.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace attn::files {

/// A model as it is published: its weights, and what its configuration says of them.
struct Model {
    std::string family; ///< "llama"
    LanguageModelDescription description;
    LanguageModelWeights weights;
    std::vector<std::string> not_computed =
        {}; ///< tensors of parts that nothing is computed with, a line for each part
};

/// The model of a folder, as save_pretrained() of transformers writes it.
///
/// The file of the family (src/files/families) says what each field of the configuration does and what the tensors are called.
/// @param folder  with config.json
/// @param arrays  the tensors of the folder, see read_weights()
/// @throws FileError     where there is no configuration, or it has a field or a value that is not known: what it changes could
///                       not be computed
/// @throws WeightsError  where tensors are missing, left over, or have other shapes than the configuration says
Model read_model(const std::filesystem::path& folder, NamedArrays arrays);

} // namespace attn::files
