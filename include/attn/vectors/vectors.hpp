#pragma once

#include "attn/core/number_type.hpp"
#include "attn/core/recording.hpp"
#include "attn/mistakes/pitfalls.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Test vectors: small inputs with what a function makes of them, and with what each well-known mistake makes of them.
namespace attn::vectors {

using Json = nlohmann::ordered_json;

/// The schema of the files: another number where a program that reads one can't read the other.
inline constexpr std::string_view schema = "vectors_schema_1";

/// How far another correct computation can be from a number, by the type that it computes in.
using Tolerances = std::map<NumberType, double>;

/// Arrays in an order that matters.
using Arrays = std::vector<std::pair<std::string, Array>>;

/// A result, and how near another has to be to be the same.
struct Output {
    std::string name;
    Array value;
    Tolerances tolerance;
};

/// Results that differ from the right ones: those of a mistake, or of a convention.
struct Alternative {
    std::string name;                            ///< the mistake's id, or the convention
    std::map<std::string, std::string> formulas; ///< of the steps that are computed otherwise, by path
    std::vector<Output> outputs;                 ///< those that differ
};

/// One vector.
struct Case {
    std::string id;      ///< "attention_causal/2/1": file, group and case
    std::string comment; ///< its sizes, in words
    Arrays inputs, weights;
    /// Of several calls, how many each request has: a call goes on from the one before it, the first of a request begins anew. What
    /// is given to one of them and what it gives is named after it, "calls.1.output"; other inputs are given to each.
    std::vector<std::size_t> requests = {};
    std::uint64_t seed = 0;        ///< of its numbers
    bool has_formulas = false;     ///< the inputs are given by formulas of their places, as place_formula() has them
    Recording steps;               ///< all of them, or none where that would be large
    std::vector<std::size_t> rows; ///< which rows of the outputs are given; empty for all
    std::vector<Output> outputs;
    std::vector<Alternative> accepted; ///< where there is no answer that all agree on
    std::vector<Alternative> wrong;    ///< by the mistakes that change an output here
};

/// Cases with the same parameters.
struct Group {
    std::string comment;
    Json parameters; ///< an object
    std::vector<Case> cases;
};

/// A function with one set of parameters, or with several that belong together.
struct File {
    std::string name;     ///< "attention_causal"
    std::string function; ///< "attention"
    std::string title, about;
    std::vector<Group> groups;
    bool has_calls = false; ///< its cases are of several calls
};

/// Runs a function of the reference: a module of `attn run`, with its flags as parameters.
/// @return its steps, the inputs among them
using RunFunction = std::function<Recording(const std::string& module, const Json& parameters, const Arrays& inputs,
                                            const Arrays& weights)>;

/// Makes all files, from the plan that is compiled in: src/vectors/plan.
///
/// Of the sizes that the plan has for a group, those are kept that are needed: see choose().
/// @param seed  of the inputs: the same files for the same seed
std::vector<File> make_vectors(std::uint64_t seed, const RunFunction& run);

/// A file as JSON, as vectors/schema.json has it.
/// @param with_formulas  beside each alternative, the formulas of the steps that are computed otherwise; and among the steps, all
///                       that comes in
std::string to_json(const File& file, std::string_view version, bool with_formulas = false);

} // namespace attn::vectors
