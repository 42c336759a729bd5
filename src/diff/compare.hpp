#pragma once

#include "attn/core/near.hpp"
#include "attn/diff/diff.hpp"

#include <string>
#include <vector>

namespace attn::diff {

/// What is off by more than this part of its size is no noise.
inline constexpr double most_relative = 0.5;

/// How far each number can be off and still be right.
struct Tolerance {
    double common = 0;             ///< for all numbers
    std::vector<double> each = {}; ///< besides, one per number; or empty
    double typical = 0;            ///< by how much other roundings were seen to change the numbers, at most

    double at(std::size_t i) const { return common + (each.empty() ? 0 : each[i]); }
};

/// True where both have one shape and the same numbers; NaN is the same as NaN, and 0 as -0.
bool same_numbers(const Array& left, const Array& right);

/// True for a whole number, an infinity or NaN.
bool is_whole(double number);

/// True where all of an array's numbers are whole or infinite, as counts, ids and masks are.
bool are_counts(const Array& array);

/// How many numbers stand along the last axis; 1 for a single number.
std::size_t row_length(const Array& array);

/// True where all numbers of the row that begins there are zero: the weights of a query that can attend to nothing.
bool is_empty_row(const Array& array, std::size_t begin);

/// True where an array has such a row.
bool has_empty_row(const Array& array);

/// True where both have one shape and no number is off by more than its tolerance.
bool agrees(const Array& found, const Array& expected, const Tolerance& tolerance);

/// How far what was found is from the reference.
/// @param judged_by  what the worst number is furthest from: the reference, or what a formula gives
Distance distance_of(const Array& found, const Array& reference, const Array& judged_by, const Tolerance& tolerance,
                     NumberType type);

/// At most 16 rows and columns of both with that number among them.
Window window_around(const Shape& index, const Array& found, const Array& reference);

/// "head 3, query 1, key 0": heads by the step's scope, the rest by the letters of its axes.
std::string place_of(const Step& step, const Shape& index);

} // namespace attn::diff
