#pragma once

#include "attn/files/trace_file.hpp"
#include "attn/formula/scope.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace attn::show {

using Json = nlohmann::ordered_json;

/// A name in a formula, and the step that it means.
struct FormulaLink {
    std::size_t at, length; ///< in the formula's text
    std::size_t step;
};

/// A formula that was read: its links, or what is wrong with it.
struct ReadFormula {
    std::vector<FormulaLink> links;
    std::string problem;
};

/// What the page shows for one number.
struct ShownExplanation {
    /// {"text": its lines, or why there are none, "cells": the numbers of steps that it comes from}. Cells are a list of
    /// [step, [start, stride, count, start, stride, count, …]], in row-major offsets.
    Json json;
    std::size_t cost; ///< about how long it took: 1 per letter, 4 per number
};

/// A run that is shown: its steps, their numbers as they are asked for, and the arithmetic of each.
class ShownRun {
public:
    /// A run whose numbers are in memory.
    ShownRun(std::string title, Recording recording);
    /// A run whose numbers stay in its file until they are asked for.
    ShownRun(std::string title, std::unique_ptr<const files::TraceReader> file);
    ShownRun(const ShownRun&) = delete;
    ShownRun& operator=(const ShownRun&) = delete;

    const std::string& title() const { return title_; }

    /// The steps, whose values have a shape and a type but need not have their numbers, and their other names.
    const Recording& outline() const { return recording_; }

    /// A step's value with its numbers; they are there until another step is asked for.
    const Array& value(std::size_t step);

    ReadFormula read_formula(std::size_t step) const;

    ShownExplanation explained(std::size_t step, std::size_t offset);

private:
    void hold(const std::vector<std::size_t>& steps);

    std::string title_;
    Recording recording_;
    formula::StepNames names_;
    std::unique_ptr<const files::TraceReader> file_; ///< none where all numbers are in memory
    std::vector<std::size_t> held_;                  ///< the steps whose numbers were read, the latest last
};

} // namespace attn::show
