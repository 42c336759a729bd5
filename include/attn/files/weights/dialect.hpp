#pragma once

#include "attn/files/npz.hpp"

#include <string>
#include <utility>
#include <vector>

namespace attn::files {

/// The names of the tensors in the state_dict of a family of models, and their layout.
struct Dialect {
    std::string family = {}; ///< for messages: "GPT-2's"; empty for the names that visit() gives
    std::vector<std::pair<std::string, std::string>> names = {}; ///< ours and theirs: {"linear1.", "mlp.c_fc."}
    bool maps_are_in_out = false; ///< Hugging Face's Conv1D: a map is (in, out), where nn.Linear has (out, in)
    std::vector<std::string> ignored =
        {}; ///< names, or endings that begin with a dot, of tensors that hold nothing learned

    /// Their name for a tensor, or for the beginning of a name.
    std::string theirs(const std::string& ours) const;
    /// Whether a tensor is a linear map that is stored as (in, out).
    bool is_in_out(const std::string& theirs) const;
    bool ignores(const std::string& theirs) const;
};

/// Which family the tensors of a file have their names from: Hugging Face's GPT-2, whose maps are Conv1D; nanoGPT, which
/// has the same names and nn.Linear; Hugging Face's BERT; its attention with o_proj; or PyTorch's own modules.
Dialect dialect_of(const NamedArrays& arrays);

} // namespace attn::files
