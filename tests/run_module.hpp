#pragma once

#include "attn/core/trace.hpp"
#include "attn/files/npz.hpp"
#include "src/cli/modules/module.hpp"

#include <string>
#include <vector>

namespace attn::test {

using Words = std::vector<std::string>;

/// What stands between spaces.
Words words_of(const std::string& text);

/// A module of `attn run`, with flags of its own. @throws std::out_of_range
cli::Module module_of(const std::string& name);

/// Computes what `attn run WORDS` does, in this process and without files: a module's name, and flags of the module.
/// @throws as the module's run
void run_module(const Words& words, const files::NamedArrays& input, const files::NamedArrays& weights,
                const Trace& trace);

} // namespace attn::test
