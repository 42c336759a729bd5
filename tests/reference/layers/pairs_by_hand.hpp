#pragma once

#include "examples.hpp"

#include <cmath>
#include <vector>

/// The pairs of features of sinusoidal and rotary positions, once more.
namespace attn::test {

inline double frequency_by_hand(std::size_t pair, std::size_t d, double base)
{
    return 1 / std::pow(base, 2.0 * static_cast<double>(pair) / static_cast<double>(d));
}

/// Sines first, then cosines: feature j of the result is feature order[j] of the interleaved ones.
inline std::vector<std::size_t> halves_order(std::size_t d)
{
    std::vector<std::size_t> order;
    for (std::size_t j = 0; j < d; j += 2)
        order.push_back(j);
    for (std::size_t j = 1; j < d; j += 2)
        order.push_back(j);
    return order;
}

inline Matrix reordered_columns(const Matrix& matrix, const std::vector<std::size_t>& order)
{
    return transpose_by_hand(rows_by_hand(transpose_by_hand(matrix), order));
}

} // namespace attn::test
