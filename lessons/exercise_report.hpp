#pragma once

#include "exercise_check.hpp"

#include <string>

namespace attn {

/// A result of a learner's function that is not the reference's.
struct WrongResult {
    const Call& call;
    const Recording& reference;
    const Step& expected;
    const Array& found;
    std::string file; ///< that the function is in
    bool with_hint =
        false; ///< shows how a result follows of which nothing is written yet
};

/// True where two arrays have the same shape, and the same numbers but for rounding:
/// 1e-12 of the largest number of the reference.
bool is_same(const Array& found, const Array& expected, const Recording& reference);

/// What is wrong, for the learner: expected and found, the arguments, the first number
/// that differs with its arithmetic, and the well-known mistake that gives the same
/// numbers, if one does. A function that returns only zeros is not written yet.
std::string report(const WrongResult& wrong);

} // namespace attn
