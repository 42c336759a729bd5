#pragma once

#include "attn/formula/evaluate.hpp"

#include <string_view>

namespace attn {

/// Finds what a name means in the formula of a step: the step of that name in the innermost scope that has one.
///
/// In the formula of `encoder.head.0.scores`, `keys` is `encoder.head.0.keys`, else `encoder.head.keys`,
/// `encoder.keys`, or `keys`.
/// @param path     of the step whose formula it is
/// @param name     a name or a dotted path
/// @param by_path  finds an earlier step by its whole path; nullptr where there is none
const Array* resolve(std::string_view path, std::string_view name, const Lookup& by_path);

} // namespace attn
