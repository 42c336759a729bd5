#pragma once

#include "attn/files/npz.hpp"
#include "attn/reference/models/language_model.hpp"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>

namespace attn::files {

/// A model as it is published: its weights, and what its configuration says of them.
struct Model {
    std::string family; ///< "llama"
    LanguageModelDescription description;
    LanguageModelWeights weights;
};

/// The model that tensors and a configuration are.
///
/// The file of the family (src/files/families) says what each field of the configuration does and what the tensors are called.
/// @param config  the configuration, as transformers writes config.json
/// @param arrays  the tensors, as transformers names them
/// @throws Error         where the configuration has a field or a value that is not known: what it changes could not be computed
/// @throws WeightsError  where tensors are missing, left over, or have other shapes than the configuration says
Model model_of(const nlohmann::json& config, NamedArrays arrays);

/// The configuration in a folder of a model, config.json.
/// @throws FileError where there is none, or it is no JSON object
nlohmann::json read_config(const std::filesystem::path& folder);

} // namespace attn::files
