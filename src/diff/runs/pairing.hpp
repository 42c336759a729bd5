#pragma once

#include "alignment.hpp"

#include "attn/diff/runs.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace attn::diff {

/// A run as a graph: node i is its array i. Where reads are not known, any earlier array may have been read.
struct Graph {
    explicit Graph(const RecordedRun& recorded);

    const RecordedRun& run;
    std::vector<Indices> reads, readers;
    std::vector<NumberType> types, types_so_far; ///< that the numbers of each tell, and the shortest up to it
    Indices results;                             ///< what the run returned, or nothing later was computed from
    bool knows_reads = false;

    std::size_t size() const { return run.arrays.size(); }
    const std::string& name(std::size_t i) const { return run.arrays[i].first; }
    const Array& array(std::size_t i) const { return run.arrays[i].second; }
    std::optional<Origin> origin(std::size_t i) const;
    bool is_input(std::size_t i) const { return knows_reads ? reads[i].empty() : i == 0; }
    bool is_result(std::size_t i) const;
};

/// What roundings alone can do to an array, over its root mean square: to its numbers, and to the sums that they are.
double roundings_of(NumberType type);

/// The type in which fewer digits are kept.
NumberType shorter(NumberType left, NumberType right);

/// Two arrays that are meant to be the same.
struct Pairing {
    std::size_t a, b;
    std::string how;
    std::optional<Search::Found> found; ///< nothing where neither is a part of the other
};

struct Pairings {
    std::vector<Pairing> pairs; ///< in the order in which they were computed
    bool is_search_cut = false;
};

/// Pairs arrays from what is surely the same to what is not: near numbers under related names, the same numbers under any name,
/// related names alone, and last the results of both.
Pairings pair_arrays(const Graph& a, const Graph& b);

} // namespace attn::diff
