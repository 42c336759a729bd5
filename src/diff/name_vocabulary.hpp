#pragma once

#include "attn/diff/gradient_name.hpp"

#include <cstddef>
#include <string_view>

/// What the words of an array's name say.
namespace attn::diff {

/// Queries, keys and values, and the words for each of them and for their maps.
struct Role {
    std::string_view one, many;
    std::string_view words[7];
};

inline constexpr Role roles[] = {{"query", "queries", {"q", "query", "queries", "xq", "wq", "bq"}},
                                 {"key", "keys", {"k", "key", "keys", "xk", "wk", "bk"}},
                                 {"value", "values", {"v", "value", "values", "val", "xv", "wv", "bv"}}};

/// True for the path of a step of a backward pass.
bool is_gradient(std::string_view path);

/// How many words of an array's name are ones that programs have for a step: att for scores, fc1 for hidden.
std::size_t words_in_common(std::string_view name, std::string_view step);

/// True where the first number in a name is another one than that of the step's layer or time: block.1.out, layers.0.output.
bool is_of_other_layer(std::string_view name, std::string_view step);

/// True where a name has the number of a layer: layers_3_norm2_var, block.1.out.
bool says_layer(std::string_view name);

/// True where a name says queries, keys or values, and the step is another of these; or the gradient of a bias, and the step
/// is none.
bool contradicts(std::string_view name, std::string_view step);

} // namespace attn::diff
