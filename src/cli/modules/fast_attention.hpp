#pragma once

#include "module.hpp"

#include "attn/attention/dot_product.hpp"

namespace attn {

/// What `attn run attention --fast` is asked for.
struct FastAttentionOptions {
    AttentionOptions options;
    std::optional<Causal> causal;
    Window window;
    std::optional<std::size_t> heads; ///< that lie side by side
    bool has_past = false;
};

/// Attention in float32 by tiles, of all forms of queries, keys and values that the module takes.
void attend_fast(const FastAttentionOptions& options, const ModuleRun& run);

} // namespace attn
