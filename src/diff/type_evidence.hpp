#pragma once

#include "attn/array.hpp"
#include "attn/number_type.hpp"

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace attn {

/// Finds the type that a program computed in from the numbers that it left.
///
/// A number tells of a type where it needs more than half of that type's digits and is not a whole number that the type
/// can count to, and where the reference's number is not of that type. Zeros, ones, small whole numbers and powers of two
/// tell nothing.
class TypeEvidence {
public:
    void add(const Array& found, const Array& reference);

    /// The coarsest type that all numbers are of and that enough of them tell of; float64 where there is none.
    NumberType type() const;

    /// Coarser types that MINE can have computed in as well: what is stored in float32 can be multiplied in 16 bits, and
    /// numbers that are all of a type can be of it though they don't tell.
    std::vector<NumberType> coarser_types() const;

    /// A line, where some arrays are exactly float32 and others are not.
    std::string hint() const;

private:
    struct Seen {
        bool all = true;            ///< each number of MINE is one of the type
        bool is_told = false;       ///< enough numbers tell of it
        std::set<double> tell = {}; ///< different numbers that do
        std::size_t arrays = 0;     ///< how many are of the type, though the reference's are not
    };

    Seen& seen(NumberType type) { return seen_[static_cast<std::size_t>(type)]; }
    const Seen& seen(NumberType type) const { return seen_[static_cast<std::size_t>(type)]; }

    Seen seen_[4];
    std::size_t arrays_ = 0;
};

/// The type that an input was rounded to: each of MINE's numbers is the reference's, rounded to it.
/// @return float64 where there is none
NumberType type_rounded_to(const Array& found, const Array& reference);

} // namespace attn
