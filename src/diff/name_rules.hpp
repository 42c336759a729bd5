#pragma once

#include "attn/diff/diff.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn::diff {

/// The parts of a name or a path: {"head", "0", "scores"}.
using Words = std::vector<std::string>;

Words split(std::string_view text, char separator);

std::string joined(const Words& words, char separator);

/// The text with each `{key}` replaced.
std::string filled(std::string text, const std::string& key, const std::string& by);

/// What is taken along one axis.
struct Taken {
    enum class Kind { all, heads, part, ellipsis } kind = Kind::all;
    std::size_t part = 0, of = 1; ///< the second of three equal parts: 1 and 3
};

/// A name rule that has been read.
struct ReadRule {
    std::string theirs;       ///< the name and what is taken, as the rule has them
    std::string suffix;       ///< what follows the name: "[..., {h}, :, :].T"
    Words name;               ///< of the array
    std::vector<Taken> taken; ///< of the array, along its axes
    bool is_transposed = false;
    Words steps;       ///< alternatives
    std::string layer; ///< of its table: "encoder.layer.{i}."
    bool is_of_table = false;

    bool takes(Taken::Kind kind) const;
};

/// @param table  that the rule is of; nullptr for one of the options
/// @throws Error where the rule is malformed
ReadRule read_rule(const NameRule& rule, const NameTable* table);

/// What the holes of a name stand for.
struct Holes {
    std::string i, rest;
    Words front; ///< what stands before the rule's words: {"transformer", "decoder"}
};

/// What the holes of a rule's name stand for in an array's name; nothing where the rule is not about that array.
std::optional<Holes> match(const ReadRule& rule, const Words& name);

/// What a rule takes along each axis of an array; nothing where the array has too few axes.
std::optional<std::vector<Taken>> taken_of_axes(const std::vector<Taken>& taken, std::size_t rank);

/// Entries begin to end of one axis.
Array range_of(const Array& array, std::size_t axis, std::size_t begin, std::size_t end);

/// Takes what a rule says.
/// @param rank  of the step: further axes in front are dropped where they have one entry
Array taken_from(Array array, const std::vector<Taken>& axes, bool is_transposed, std::size_t head, std::size_t rank);

} // namespace attn::diff
