#pragma once

#include "attn/reference/layers/rotary.hpp"

#include <cstddef>
#include <string_view>

#include <nlohmann/json.hpp>

/// The rotary positions of a model, as its config.json has them: by Hugging Face's rope_parameters, or rope_scaling before
/// transformers 5.
namespace attn::files {

/// The options that rope parameters ask for.
///
/// Values are looked up as transformers 5.12.1 does it:
///
/// | value | is |
/// |-------|----|
/// | rope_type | the parameters', or their `type`; "default" where they have neither |
/// | rope_theta, partial_rotary_factor | the parameters', else the config's, else 10000 and 1 |
/// | original_max_position_embeddings | the config's, else the parameters', else the config's max_position_embeddings |
/// | max_position_embeddings of "dynamic" | the config's, else the parameters' |
/// | factor of "longrope", and of "yarn" where it is null | max_position_embeddings / original_max_position_embeddings unless given |
///
/// A value that is null is not given. Some classes of transformers have other presets, such as a rope_theta of 1000000: put
/// these into the config first.
/// @param parameters  an object: of the whole config, or of one type of its layers; null for none
/// @param config      the object around it, or a part of it, as text_config
/// @param head_width  features of one head, of which partial_rotary_factor are rotated
/// @param name        of the parameters, for messages: "rope_parameters.full_attention"
/// @return with the layout halves, which most of Hugging Face's models have; GLM's and Cohere's have pairs
/// @throws Error where a type or a field is not known, a field is missing, or has another type or range; the message goes on
///               after a file's name: "rope_parameters.rope_type longrope9 is not known; known are default, linear, …"
RotaryOptions rotary_options(const nlohmann::json& parameters, const nlohmann::json& config, std::size_t head_width,
                             std::string_view name = "rope_parameters");

/// The same of what the config has: rope_scaling, else rope_parameters, else neither.
RotaryOptions rotary_options(const nlohmann::json& config, std::size_t head_width);

/// The scaling alone, of parameters without rope_theta and partial_rotary_factor.
/// @param name  of the parameters, for messages; empty for none
RotaryScaling rotary_scaling(const nlohmann::json& parameters, const nlohmann::json& config, std::string_view name);

} // namespace attn::files
