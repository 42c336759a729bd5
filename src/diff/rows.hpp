#pragma once

#include "attn/core/recording.hpp"

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace attn::diff {

/// The rows of all steps, to look up rows of arrays in: a call with a cache has the last row of a step, a chunk some of them, and
/// one that sees fewer keys the beginning of each row.
class Rows {
public:
    /// @param steps  that outlive this
    explicit Rows(const std::vector<Step>& steps);

    /// How much of a step an array is whose rows are, up to roundings, rows of that step or of that step of the heads, or begin
    /// some: less than all of it; 0 where they are none.
    /// @param near  how far a number can be off, relative to the largest of its row
    double share(const Array& array, double near) const;

private:
    struct Row {
        double first;
        std::size_t step, begin, length;
    };
    std::vector<std::size_t> starts_at(const Array& array, std::size_t begin, std::size_t length, double near) const;

    const std::vector<Step>& steps_;
    std::vector<std::size_t> kinds_;                     ///< of the steps: those of all heads have one
    std::vector<std::size_t> sizes_;                     ///< of the kinds: how many numbers they have
    std::set<std::pair<std::size_t, double>> constants_; ///< that rows of a kind have throughout
    std::vector<Row> rows_;                              ///< in the order of their first numbers
};

} // namespace attn::diff
