#pragma once

#include "attn/tensor.hpp"

#include <cstddef>
#include <vector>

namespace attn {

/// Which rows belong to each row: column c of row i stands for row i + distances[c], where the mask says that it is one.
struct Band {
    std::vector<std::ptrdiff_t> distances; ///< (width)
    Mask mask;                             ///< (n, width)
};

/// @name Products of each row with the rows around it
///
/// What matmul() would give on the band and nothing else: no (n, n) matrix exists, nor a copy of any row.
/// @{

/// Each row's dot products with its neighbours in another matrix.
/// @param left   (n, k)
/// @param right  (n, k)
/// @param band   (n, width)
/// @return (n, width): `left[i] . right[i + distances[c]]`, or 0 where the mask has no row
/// @throws ShapeError where left, right and band disagree, or the band has a row where right has none
Matrix banded_scores(const Matrix& left, const Matrix& right, const Band& band);

/// Each row's neighbours, each in its proportion, summed.
/// @param weights  (n, width)
/// @param values   (n, d)
/// @param band     (n, width)
/// @return (n, d): the sum over c of `weights[i, c] values[i + distances[c]]`, where the mask has a row
/// @throws ShapeError where weights, values and band disagree, or the band has a row where values has none
Matrix sum_of_neighbours(const Matrix& weights, const Matrix& values, const Band& band);

/// @}

} // namespace attn
