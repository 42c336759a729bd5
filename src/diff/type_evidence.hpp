#pragma once

#include "attn/core/array.hpp"
#include "attn/core/number_type.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace attn::diff {

/// Finds the type that a program computed in from the numbers that it left.
///
/// A number is evidence of a type where it needs more than half of that type's digits and is not a whole number that
/// the type can count to, and where the reference's number is not of that type. Zeros, ones, small whole numbers and
/// powers of two tell nothing. Each array tells for itself: what follows from float32 numbers is as inexact as these,
/// whatever it is stored in.
class TypeEvidence {
public:
    /// Takes an array that MINE computed; inputs and selections of them can have been rounded before.
    void add(const Array& found, const Array& reference);

    /// The coarsest type that an array tells of; float64 where none does.
    NumberType type() const;

    /// Coarser types that MINE can have computed in as well: what is stored in float32 can be multiplied in 16 bits, and
    /// numbers that are all of a type can be of it though they don't tell.
    std::vector<NumberType> coarser_types() const;

    /// A line, where some arrays are of the type and others of a finer one.
    std::string hint() const;

private:
    NumberType type_ = NumberType::float64;
    std::size_t arrays_ = 0;
    std::size_t exact_[4] = {};  ///< by type: arrays of which all numbers are of it
    bool is_text_ = true;        ///< all numbers have nine digits, as %.9g prints them
    std::size_t long_texts_ = 0; ///< how many of them need more than seven
};

/// True for a number of a type that needs more than half of its digits, and is not whole or too large to be exact.
bool needs_digits(NumberType type, double number);

/// True for a step that only selects numbers of others: table[ids], query[..., 0:8].
bool is_selection(std::string_view formula);

/// The type that an input was rounded to: each of MINE's numbers is the reference's, rounded to it.
/// @return float64 where there is none
NumberType type_rounded_to(const Array& found, const Array& reference);

} // namespace attn::diff
