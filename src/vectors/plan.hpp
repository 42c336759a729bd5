#pragma once

#include "attn/vectors/vectors.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attn::vectors {

/// A file of the plan, as it was compiled in.
struct PlanFile {
    std::string_view name, json;
};
std::span<const PlanFile> plan_files();

/// What the numbers of an input are.
enum class Holds {
    numbers,             ///< whole sixteenths between -2 and 2
    gains,               ///< whole sixteenths between 1/2 and 3/2
    large,               ///< so large that exp() of a score is infinite in float32
    mask,                ///< true where a query can attend, which each query can to one key at least
    mask_with_empty_row, ///< the same, but for the first query
    lengths,             ///< whole numbers from 1 to the limit, one of them the limit and another less
    targets,             ///< whole numbers below the limit, or -100, which is the last one
    ids,                 ///< whole numbers below the limit, one of them twice
    pages,               ///< whole numbers below the limit, each of them once at most
    padded_before, ///< true for a token: in each row but the last, up to the limit of padding comes before the tokens
    padded_after,  ///< or after them
    by_formula     ///< numbers by a formula of their places
};

struct Drawn {
    std::string name;
    std::vector<std::string> axes; ///< letters, numbers, or products of both: "b", "2", "h*d"
    Holds holds = Holds::numbers;
    std::string limit = {}; ///< of lengths and ids: a letter or a number
};

/// A convention: steps, by the end of their paths, and what computes them instead.
using Convention = std::map<std::string, std::string>;

/// The sizes of the axes, by letter.
using Sizes = std::map<std::string, std::size_t>;

/// Names and formulas, in order.
using Formulas = std::vector<std::pair<std::string, std::string>>;

/// Several calls, each of which goes on from the one before it.
struct PlannedCalls {
    std::vector<std::size_t> requests;      ///< how many calls each has; the first of a request begins anew
    std::vector<Drawn> shared, of_request;  ///< inputs that all calls have, and those of one request
    Formulas start, carried, computed;      ///< what a first call, a later one and each has beside its inputs
    std::vector<std::string> beside;        ///< what of all that the module does not take
    std::vector<std::string> mistakes = {}; ///< ids, of src/vectors/calls
};

struct PlannedGroup {
    std::string comment;
    Json parameters;
    std::vector<Drawn> inputs, weights;
    std::vector<std::vector<Sizes>> sizes = {}; ///< those of each call; of one where there are not several
    bool keeps_all = false;                     ///< each size is needed for itself
    std::vector<std::size_t> rows;              ///< which rows of the result are given; steps are not, then
    std::map<std::string, Convention> accepts;
    std::optional<PlannedCalls> calls = {};
};

struct PlannedFile {
    std::string name, function, module, title, about;
    bool is_backward = false; ///< the results are the gradients of all inputs and weights
    std::vector<PlannedGroup> groups = {};
};

/// All files of the plan.
/// @throws std::logic_error where one is not as src/vectors/plan/README.md says
std::vector<PlannedFile> plan();

/// The size of an axis: the product of its factors.
std::size_t size_of(std::string_view axis, const Sizes& sizes);

} // namespace attn::vectors
