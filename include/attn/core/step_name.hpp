#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// The syntax of the names of steps, the same in a trace, in its file and in its formulas.
///
///     name  = (letter | "_") { letter | digit | "_" }            "scores"
///     path  = part { "." part }                                  "layers.0.self_attn.head.1.scores"
///     part  = (letter | digit | "_") { letter | digit | "_" }
///     label = name [ "[" [ "(b,) " ] axis { ", " axis } "]" ]    "scores[(b,) n, m]"
///     axis  = name

namespace attn {

/// True for a character that a name can begin with.
constexpr bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// True for a character that a name can go on with.
constexpr bool continues_name(char c) { return begins_name(c) || (c >= '0' && c <= '9'); }

/// True for the name of a step, a scope or an axis.
bool is_step_name(std::string_view text);

/// True for the path of a step: the scopes around it and its name.
bool is_step_path(std::string_view text);

/// A label, which stands before a formula: a step's name and the letters of its axes.
struct StepLabel {
    std::string name;
    std::vector<std::string> axes;
    bool may_be_batch = false; ///< a value with one more axis has the axis b in front of them, with two more b and h
};

/// Reads "scores[n, m]" as the name scores and the axes n and m; "scores" has no axes. "scores[(b,) n, m]" can be one
/// sequence's scores, a batch's, or those of a batch's heads.
/// @throws std::logic_error where the text is no such label
StepLabel parse_step_label(std::string_view text);

/// How many letters have to be put in, taken out or changed to make one text of the other: 1 for "score" and "scores".
std::size_t edit_distance(std::string_view from, std::string_view to);

/// Names that are nearly another one: "; did you mean scores or head.0.scores?"; empty where there are none.
std::string suggestion(const std::vector<std::string_view>& names, std::string_view name);

/// What to say of a path that no step has: "no step is called score; did you mean scores?"
std::string no_step_is_called(std::string_view path, const std::vector<std::string_view>& paths);

} // namespace attn
