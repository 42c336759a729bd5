#pragma once

#include "call.hpp"

#include <span>
#include <string_view>

namespace attn::fast {

/// Refuses a tensor that has another shape than one that it belongs to.
/// @param who  the function that was called
/// @throws ShapeError
void expect_same_shape(std::string_view who, std::string_view left, const Const& a, std::string_view right,
                       const Const& b);

/// Refuses a null pointer in place of numbers; where the shape holds none, there is nothing to point to.
/// @throws Error
void expect_numbers(std::string_view who, std::string_view role, const Const& x);
void expect_numbers(std::string_view who, std::string_view role, const Tokens<const float>& x);

/// Refuses what attention() can't be computed of.
/// @throws ShapeError, Error  as attention() says
void expect_fit(std::string_view who, const Const& queries, const Const& keys, const Const& values,
                const Const& context, const Scoring& scoring);

/// Refuses other than a number per query of each head.
/// @throws ShapeError
void expect_sums(std::string_view who, std::span<const float> sums, const Const& queries);

} // namespace attn::fast
