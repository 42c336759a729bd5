#include "attn/reference/ops/top_k.hpp"

#include "attn/core/shape.hpp"

#include <cmath>
#include <span>
#include <string>

namespace attn {
namespace {

/// Whether a number is taken before another one that stands after it.
bool is_at_least(double earlier, double later)
{
    return std::isnan(earlier) || (!std::isnan(later) && earlier >= later);
}

/// How many numbers of a row are taken before the one at a place: the larger ones, and of equals the earlier ones.
std::size_t taken_before(std::span<const double> row, std::size_t place)
{
    std::size_t count = 0;
    for (std::size_t i = 0; i < row.size(); ++i)
        if (i < place)
            count += is_at_least(row[i], row[place]);
        else if (i > place)
            count += !is_at_least(row[place], row[i]);
    return count;
}

template <class Result, class T>
Result top_k_of_rows(const T& scores, std::size_t k)
{
    const std::size_t m = scores.shape(scores.dimension() - 1);
    if (k < 1 || k > m)
        throw ShapeError("top_k: of scores ", shape_of(scores), " the ", k,
                         " largest of each row were asked for, expected 1 to ", m);
    Result is_taken(scores.shape());
    for (std::size_t first = 0; first < scores.size(); first += m)
        for (std::size_t i = 0; i < m; ++i)
            is_taken.storage()[first + i] = taken_before({scores.data() + first, m}, i) < k;
    return is_taken;
}

} // namespace

Mask top_k(const Matrix& scores, std::size_t k) { return top_k_of_rows<Mask>(scores, k); }
BatchMask top_k(const Tensor3& scores, std::size_t k) { return top_k_of_rows<BatchMask>(scores, k); }
HeadMask top_k(const Tensor4& scores, std::size_t k) { return top_k_of_rows<HeadMask>(scores, k); }

} // namespace attn
