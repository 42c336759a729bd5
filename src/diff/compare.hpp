#pragma once

#include "attn/diff/diff.hpp"

#include <string>
#include <vector>

namespace attn {

/// How far each number may be off: one for all, or one a number.
struct Tolerance {
    double common = 0;
    std::vector<double> each = {}; ///< besides; empty or one a number

    double at(std::size_t i) const { return common + (each.empty() ? 0 : each[i]); }
};

/// True where both have one shape and the same numbers; NaN is the same as NaN, and 0 as -0.
bool same_numbers(const Array& left, const Array& right);

/// The smallest positive number of a type: what is smaller rounds to zero.
double smallest_of(NumberType type);

/// By how many tolerances a number is off; not above 1 where it agrees. An infinity agrees with itself only, NaN with NaN.
double times_off(double found, double expected, double tolerance);

/// True where both have one shape and no number is off by more than its tolerance.
bool agrees(const Array& found, const Array& expected, const Tolerance& tolerance);

/// How far what was found is from the reference.
/// @param judged_by  what the worst number is furthest from: the reference, or what a formula gives
Distance distance_of(const Array& found, const Array& reference, const Array& judged_by, const Tolerance& tolerance,
                     NumberType type);

/// The type that all numbers of MINE are exactly of, though the reference's are not: else they prove nothing.
class TypeEvidence {
public:
    void add(const Array& found, const Array& reference);

    /// The coarsest type that all agree with; float64 where none is proven.
    NumberType type() const;
    /// A line, where some arrays are exactly float32 and others are not.
    std::string hint() const;

private:
    struct Seen {
        bool all = true;       ///< each number of MINE is one of the type
        bool is_proof = false; ///< and the reference has one that is not
        std::size_t arrays = 0;
    };

    Seen& seen(NumberType type) { return seen_[static_cast<std::size_t>(type)]; }
    const Seen& seen(NumberType type) const { return seen_[static_cast<std::size_t>(type)]; }

    Seen seen_[4];
    std::size_t arrays_ = 0;
};

/// "head 3, query 1, key 0": heads by the step's scope, the rest by the letters of its axes.
std::string place_of(const Step& step, const Shape& index);

/// "head.3.scores[1,0]"
std::string cell_of(const std::string& path, const Shape& index);

/// The word for the things along an axis: "query" for n.
std::string word_for_axis(const std::string& letter);

} // namespace attn
