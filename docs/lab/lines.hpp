#pragma once

#include "attn/core/array.hpp"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// A learner's lines of NumPy: names, functions and `return` around formulas of the language.
namespace attn::lab {

/// What names mean in some lines.
struct Names {
    std::map<std::string, Array, std::less<>> arrays;           ///< of a dictionary each under "weights.norm1.bias"
    std::map<std::string, std::string, std::less<>> texts = {}; ///< name = "norm1"
};

/// A line, without its comment; what stands in open brackets goes on in it.
struct Line {
    std::size_t indent = 0;
    std::size_t number = 0; ///< from 1
    std::string text;
};

struct Parameter {
    std::string name;
    std::string otherwise = {}; ///< its value where none is given; empty where there has to be one
};

/// A function that lines can call: `def f(x, heads=2):`.
struct Definition {
    std::vector<Parameter> parameters;
    std::vector<Line> body;
    Names around = {}; ///< what else its lines can name
};
using Definitions = std::map<std::string, Definition, std::less<>>;

/// What lines gave: the values of the last one or of `return`, and what got a name before.
struct Ran {
    std::vector<Array> results;
    std::vector<std::pair<std::string, Array>> named;
};

std::vector<Line> lines_of(std::string_view text);

/// True where the lines define that function.
bool define(const std::vector<Line>& lines, std::string_view function);

/// Runs lines: `name = formula`, `a, b = formula, formula`, `a, b = x.shape`, `return formula`, `def`; the last one can be a formula.
/// @param functions  that can be called; what the lines define joins them
/// @param refused    a function of the language that is not to be called, since it is what is to be written; or empty
/// @throws Error with the number of the line
Ran run_lines(const std::vector<Line>& lines, Names names, Definitions& functions, std::string_view refused);

/// Calls a function with values for its first parameters; a dictionary has its arrays under their keys.
Ran run_function(std::string_view name, const std::vector<std::map<std::string, Array, std::less<>>>& arguments,
                 Definitions& functions, std::string_view refused);

} // namespace attn::lab
