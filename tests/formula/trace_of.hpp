#pragma once

#include "attn/core/recording.hpp"
#include "attn/formula/evaluate.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace attn::test {

inline Step input(std::string path, Array value) { return {std::move(path), "", {}, "", {}, std::move(value)}; }

/// A trace of inputs and of what formulas make of them.
inline Recording trace_of(const std::vector<Step>& inputs,
                          const std::vector<std::pair<std::string, std::string>>& formulas)
{
    Recording recording{inputs, {}};
    for (const auto& [path, formula] : formulas) {
        const formula::Lookup lookup = [&](std::string_view name) -> const Array* {
            const auto found = std::ranges::find(recording.steps, name, &Step::path);
            return found == recording.steps.end() ? nullptr : &found->value;
        };
        recording.steps.push_back({path, formula, {}, "", {}, formula::evaluate(formula, lookup).value});
    }
    return recording;
}

} // namespace attn::test
