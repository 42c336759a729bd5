#include "attn/ops/reduce.hpp"

#include <limits>

namespace attn {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// What a reduction along an axis leaves of a matrix without numbers: its start value everywhere.
Vector filled_along(const Matrix& matrix, std::size_t axis, double start)
{
    return Vector({matrix.shape(1 - axis)}, start);
}

} // namespace

double sum_all(const Vector& vector) { return xt::sum(vector)(); }
double sum_all(const Matrix& matrix) { return xt::sum(matrix)(); }

Vector sum_along(const Matrix& matrix, std::size_t axis)
{
    if (matrix.size() == 0)
        return filled_along(matrix, axis, 0);
    return xt::sum(matrix, {axis});
}

double mean_all(const Vector& vector) { return sum_all(vector) / static_cast<double>(vector.size()); }
double mean_all(const Matrix& matrix) { return sum_all(matrix) / static_cast<double>(matrix.size()); }

double variance_all(const Matrix& matrix)
{
    const Matrix distances = matrix - mean_all(matrix);
    return mean_all(Matrix(distances * distances));
}

double max_all(const Vector& vector) { return vector.size() == 0 ? minus_infinity : xt::amax(vector)(); }
double max_all(const Matrix& matrix) { return matrix.size() == 0 ? minus_infinity : xt::amax(matrix)(); }

Vector max_along(const Matrix& matrix, std::size_t axis)
{
    if (matrix.size() == 0)
        return filled_along(matrix, axis, minus_infinity);
    return xt::amax(matrix, {axis});
}

} // namespace attn
