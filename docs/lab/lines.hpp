#pragma once

#include "attn/core/array.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// A learner's lines of NumPy: names, functions, loops and lists around formulas of the language.
namespace attn::lab {

/// What names mean in some lines.
struct Names {
    std::map<std::string, Array, std::less<>> arrays;           ///< of a dictionary each under "weights.norm1.bias"
    std::map<std::string, std::string, std::less<>> texts = {}; ///< name = "norm1"
    std::set<std::string, std::less<>> lists = {};              ///< of the arrays: Python's lists, ids = [start]
};

/// A line, without its comment; what stands in open brackets goes on in it.
struct Line {
    std::size_t indent = 0;
    std::size_t number = 0; ///< from 1
    std::string text;
    bool goes_on = false; ///< after a semicolon
};

struct Parameter {
    std::string name;
    std::string otherwise = {}; ///< its value where none is given; empty where there has to be one
};

/// A function that lines can call: `def f(x, heads=2):`.
struct Definition {
    std::vector<Parameter> parameters;
    std::vector<Line> body;
    bool returns = true; ///< what it gives is said by return; lines without def can end with it
    Names around = {};   ///< what else its lines can name
};
using Definitions = std::map<std::string, Definition, std::less<>>;

/// What lines gave: the values of the last one or of `return`, and what got a name before.
struct Ran {
    std::vector<Array> results = {};
    bool is_list = false;   ///< the result is a list
    bool is_shared = false; ///< the result is a part of something that has a name
    std::vector<std::pair<std::string, Array>> named = {};
};

std::vector<Line> lines_of(std::string_view text);

/// True where the lines define that function.
bool define(const std::vector<Line>& lines, std::string_view function);

/// Runs lines: `name = formula`, `x[i] = formula`, `a, b = formula, formula`, `a, b = x.shape`, `ids.append(formula)`, `return formula`,
/// `def`, `for`, `while`, `if`; the last one can be a formula. What they do is spent from the budget, so that each loop ends.
/// @param functions  that can be called; what the lines define joins them
/// @param refused    a function of the language that is not to be called, since it is what is to be written; or empty
/// @throws Error with the number of the line
Ran run_lines(const std::vector<Line>& lines, Names names, Definitions& functions, std::string_view refused);

/// Calls a function with values for its first parameters; a dictionary has its arrays under their keys.
Ran run_function(std::string_view name, const std::vector<std::map<std::string, Array, std::less<>>>& arguments,
                 Definitions& functions, std::string_view refused);

} // namespace attn::lab
