#pragma once

#include "attn/files/npz.hpp"

#include <string>
#include <vector>

namespace attn::files {

/// Tensors under other names, such as those of a model that somebody else wrote.
/// @param renames  each "OLD=NEW"; the first that fits a tensor's whole name holds. A * in OLD stands for any text, as short as
///                 it can be, and the same * of NEW for the same text: "blocks.*.ff.*=layers.*.mlp.*". What none fits keeps
///                 its name.
/// @throws Error where one has no = or another number of * on its two sides, where it fits no tensor, and where two tensors
///               get one name
NamedArrays rename_tensors(NamedArrays arrays, const std::vector<std::string>& renames);

} // namespace attn::files
