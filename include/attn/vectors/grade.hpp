#pragma once

#include "attn/vectors/vectors.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// Grading a program by vectors.
namespace attn::vectors {

/// What is said of one case.
struct Grade {
    enum class Verdict {
        passed,
        accepted, ///< by a convention other than ours
        skipped,  ///< the program does not express it
        failed
    };

    std::string id, function;
    Verdict verdict = Verdict::passed;
    std::vector<std::string> names; ///< of the mistakes, or of the convention, whose results the program's are
    std::string message;            ///< one line, empty where it passed
    bool passes_in_float32 = false; ///< a case that failed in a type of more digits
};

/// What a program gives for one case, by name; nothing where it does not express the case.
using Answers = std::optional<std::map<std::string, Array, std::less<>>>;

/// Grades what a program gives for a case.
/// @param file  as vectors/schema.json has it; one is a case of it
/// @param type  in which the program computes
Grade grade(const Json& file, const Json& one, const Answers& answers, NumberType type);

/// An array of a file, or of a program's answer: {"shape": [2, 3], "values": [...]}.
/// @throws Error where it is no such array
Array array_of(const Json& json);

/// Refuses what is not as vectors/schema.json says, as far as grading needs it.
/// @throws Error with what is wrong
void expect_vectors(const Json& file);

/// What a case asks: an object with id, function, parameters, inputs and weights, where inputs that are given by formulas are
/// numbers.
Json question(const Json& file, const Json& group, const Json& one);

/// A report that build servers read: JUnit's XML.
std::string to_junit(std::span<const Grade> grades);

} // namespace attn::vectors
