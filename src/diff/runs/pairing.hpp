#pragma once

#include "attn/diff/runs.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attn::diff {

/// An array seen with its axes in some order, and of some of its numbers.
struct View {
    const Array* array;
    Shape shape;                        ///< of what is seen
    std::vector<std::size_t> strides;   ///< per axis; 0 for one that the array does not have
    std::size_t begin = 0;              ///< the place of the first number
    std::vector<std::size_t> axes = {}; ///< which axis of the array each is; beyond its rank, one that it does not have
    Shape offsets = {};                 ///< of what is seen, per axis
};

/// Two arrays that are one, or the parts of them that both have.
struct Aligned {
    View a, b;
    bool is_part = false;
};

/// How far apart two aligned arrays are.
struct Apart {
    std::size_t count = 0, differing = 0;
    double rms = 0, difference = 0; ///< root mean squares: of the larger of both, of their difference
    double largest = 0;             ///< the largest difference, over its number or the root mean square
    bool is_finite = true;          ///< false where one has an infinity or NaN that the other does not have
    std::size_t worst = 0;          ///< counted through the shape of the views

    double off() const;
    /// By how much roundings can leave two arrays apart that are meant to be the same, roughly.
    bool is_near() const;
};

Apart measure(const Aligned& both);

/// The index in the array of the number that a view has in some place.
Shape index_in(const View& view, std::size_t place);

/// A pair of places in the runs' lists of arrays.
struct Pairing {
    std::size_t a, b;
    std::string how;
    std::optional<Aligned> aligned; ///< nothing where neither is a part of the other
};

/// All pairs.
struct Pairings {
    std::vector<Pairing> pairs; ///< in the order in which they were computed
    bool is_search_cut = false;
};

Pairings pair_arrays(const RecordedRun& a, const RecordedRun& b);

} // namespace attn::diff
