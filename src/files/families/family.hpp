#pragma once

#include "attn/files/families/model.hpp"
#include "attn/files/json_file.hpp"
#include "attn/files/npz.hpp"
#include "attn/files/weights/dialect.hpp"

#include "settings.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attn::files {

/// A family's file, as it was compiled in.
struct FamilyFile {
    std::string_view name, json;
};
std::span<const FamilyFile> family_files();

/// A family with everything that it has from the one that it is like; see README.md beside the files.
struct Family {
    std::string model_type;
    std::vector<std::string> architectures; ///< the first is meant where a configuration names none
    Json always, fields, names, older_names, copies, unpack, packed_experts, squeezed, kernels, ignored, not_computed,
        variants, towers;
    std::string base_prefix, shared_layer, frequencies;
};

/// The family of a configuration, with the entries of its variants that hold for it.
/// @param tower  "encoder" or "decoder" of a family that has both, with its entries; empty for what they have in common
/// @throws Error where its model_type is not known, or it is of a variant that is refused
Family family_of(const Json& config, const std::string& tower = "");

/// The towers of a configuration: "encoder" and "decoder", the encoder alone, or "" of a family that has no such parts.
std::vector<std::string> towers_of(const Family& family, const Json& config);

/// The tensors of a tower: its own, and those that no other tower has for itself.
NamedArrays tensors_of_tower(const NamedArrays& arrays, const Family& family, const std::string& tower);

/// What a configuration sets.
/// @param accepted  fields that are not known, and to be passed over
/// @throws Error where it has other fields that are not known, or a value that is not
Settings settings_of(const Family& family, const Json& config, const std::vector<std::string>& accepted);

/// Tensors that hold several maps, taken apart: attn.qkv_proj.weight becomes attn.qkv_proj.query.weight and so on, and
/// experts.gate_up_proj of all experts becomes experts.0.gate_proj.weight and so on. Tensors with axes of one number lose these, and
/// the kernels of convolutions along tokens, (out, in, window), become (out, window in).
/// @throws Error where one is of another shape than the settings say
NamedArrays unpacked(NamedArrays arrays, const Family& family, const Settings& settings);

/// Tensors under the names of today: of those that had others before. What is there twice is dropped.
/// @throws Error where two tensors differ that must be the same
NamedArrays renamed(NamedArrays arrays, const Family& family);

/// Tensors of one layer that stands for all, as ALBERT has it, as those of each layer.
NamedArrays with_each_layer(NamedArrays arrays, const Family& family, std::size_t layers);

/// Takes out the tensors of parts that are not computed here.
/// @return a line for each such part: its tensors, and what it is
std::vector<std::string> take_not_computed(NamedArrays& arrays, const Family& family);

/// Layers of a model, from the first to before the last.
struct Part {
    std::size_t first, last, all; ///< of so many layers

    bool is_at_beginning() const { return first == 0; }
    bool is_at_end() const { return last == all; }
    bool is_whole() const { return is_at_beginning() && is_at_end(); }
    std::size_t size() const { return last - first; }
};

/// Our names and the family's.
/// @param arrays  unpacked
/// @param part    whose layers we count from 0
Dialect dialect_of(const Family& family, const Settings& settings, const NamedArrays& arrays, const Part& part);

/// @throws Error where the model has no such layers
Part part_of(const LayerRange& range, std::size_t layers);

/// Refuses more layers than there are tensors of: a configuration can say a billion.
void expect_layers(const Part& part, const Family& family, const std::vector<std::string>& tensors);

/// The tensors that a part is computed with, and those of no known place.
NameFilter tensors_of(const Part& part, const Family& family, const Settings& settings);

/// What the weights of a part must have.
Settings settings_of(const Part& part, Settings settings);

/// What is computed of it.
LanguageModelDescription description_of(const Part& part, LanguageModelDescription model);

} // namespace attn::files
