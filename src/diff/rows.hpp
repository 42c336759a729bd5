#pragma once

#include "attn/core/recording.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace attn::diff {

/// The rows of all steps, to look up rows of arrays in: a call with a cache has the last row of a step, a chunk some of them, and
/// one that sees fewer keys the beginning of each row.
class Rows {
public:
    /// @param steps  that outlive this
    explicit Rows(const std::vector<Step>& steps);

    /// True where each row of an array is, up to roundings, a row of one step or of that step of the heads, or begins one; and they are
    /// not all.
    /// @param near  how far a number can be off, relative to the largest of its row
    bool have(const Array& array, double near) const;

private:
    struct Row {
        double first;
        std::size_t step, begin, length;
    };
    std::vector<std::size_t> starts_at(const Array& array, std::size_t begin, std::size_t length, double near) const;

    const std::vector<Step>& steps_;
    std::vector<std::size_t> kinds_; ///< of the steps: those of all heads have one
    std::vector<std::size_t> sizes_; ///< of the kinds: how many numbers they have
    std::vector<Row> rows_;          ///< in the order of their first numbers
};

} // namespace attn::diff
