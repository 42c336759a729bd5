#pragma once

#include "module.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/attention/dot_product.hpp"

#include <array>

namespace attn::cli {

/// What `attn run attention --fast` is asked for.
struct FastAttentionOptions {
    AttentionOptions options;
    std::optional<Causal> causal;
    Window window;
    std::optional<std::size_t> heads; ///< that lie side by side
    bool has_past = false;
};

/// The strides of b, h and n where a mask or a bias serves all that it has no axis for.
template <class Container>
std::array<std::size_t, 3> strides_of(const Container& any)
{
    const Shape shape = shape_of(any);
    const std::size_t m = shape.back(), pairs = shape.end()[-2] * m;
    std::array<std::size_t, 3> strides{0, 0, m};
    if (shape.size() == 3)
        strides[0] = pairs;
    if (shape.size() == 4) {
        strides[0] = shape[0] == 1 ? 0 : shape[1] * pairs;
        strides[1] = shape[1] == 1 ? 0 : pairs;
    }
    return strides;
}

/// Attention in float32 by tiles, of all forms of queries, keys and values that the module takes.
void attend_fast(const FastAttentionOptions& options, const ModuleRun& run);

} // namespace attn::cli
