#pragma once

#include "attn/core/near.hpp"
#include "attn/core/number_type.hpp"

#include <vector>

namespace attn::vectors {

/// What a result can be computed in: vectors have a tolerance of each.
inline constexpr NumberType computed_types[] = {NumberType::float64, NumberType::float32, NumberType::float16,
                                                NumberType::bfloat16};

/// Some rows of a result, of its last axis but one; all of them where none are named.
Array rows_of(const Array& array, const std::vector<std::size_t>& rows);

/// True where each number is as near to the expected one as the tolerance says, NaN for NaN and infinity for infinity.
bool is_same(const Array& found, const Array& expected, double tolerance);

} // namespace attn::vectors
