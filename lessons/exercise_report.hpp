#pragma once

#include "exercise_check.hpp"

#include "attn/mistakes/pitfalls.hpp"

#include <string>

namespace attn {

/// A result of a learner's function that is not the reference's.
struct WrongResult {
    const Call& call;
    const Recording& reference;
    const Step& expected;
    const Array& found;
    std::string file; ///< that the function is in
};

/// True where two arrays have the same shape, and the same numbers but for rounding:
/// 1e-12 of the largest number of the reference.
bool is_same(const Array& found, const Array& expected, const Recording& reference);

/// What is said of a wrong result, stage by stage: who wants to find it alone reads no
/// further than needed.
struct Hints {
    std::string what; ///< expected and found, the arguments, the first number that
                      ///< differs, the well-known mistake that gives the same numbers
    std::string step; ///< the step to look at, and the arithmetic of that number
    std::string line; ///< the formulas, and where it is solved
    const mistakes::Pitfall* mistake = nullptr; ///< that one, if there is one
};
Hints hints_on(const WrongResult& wrong);

/// How much of them is shown: the next stage is asked for with a flag.
enum class Stage { what, step, line };
std::string to_text(const Hints& hints, Stage stage);

} // namespace attn
