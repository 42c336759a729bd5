#pragma once

#include "attn/core/tensor.hpp"

#include <optional>

namespace attn {

/// The rows of a matrix that are neighbours of each row.
struct Band {
    Integers distances;                           ///< (width): column c of row i means row i + distances[c]
    Mask mask;                                    ///< (n, width): where there is such a row
    std::optional<IntegerMatrix> neighbours = {}; ///< (n, width): the rows themselves, in place of i + distances[c]
};

/// @name Products of each row with the rows around it
///
/// What matmul() would give on the band and nothing else: no (n, n) matrix exists, nor a copy of any row. The sequences
/// of a batch share a band.
/// @{

/// Each row's dot products with its neighbours in another matrix.
/// @param left   ((b,) n, k)
/// @param right  ((b,) n, k)
/// @param band   (n, width)
/// @return ((b,) n, width): `left[i] . right[i + distances[c]]`, 0 where the mask is false
/// @throws ShapeError where left, right and band disagree, or the mask is true at a neighbour that is no row
template <Sequence T>
T banded_scores(const T& left, const T& right, const Band& band);
ATTN_REFUSE_OTHER_TENSORS(banded_scores);

/// Each row's weighted sum of its neighbours.
/// @param weights  ((b,) n, width)
/// @param values   ((b,) n, d)
/// @param band     (n, width)
/// @return ((b,) n, d): the sum over c of `weights[i, c] values[i + distances[c]]`, where the mask is true
/// @throws ShapeError where weights, values and band disagree, or the mask is true at a neighbour that is no row
template <Sequence T>
T sum_of_neighbours(const T& weights, const T& values, const Band& band);
ATTN_REFUSE_OTHER_TENSORS(sum_of_neighbours);

/// @}

} // namespace attn
