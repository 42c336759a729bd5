#include "attn/reference/ops/reduce.hpp"

#include "attn/reference/ops/batch.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

namespace attn {
namespace {

/// The axis of a matrix that a reduction along one of them leaves.
std::size_t other_axis(std::size_t axis)
{
    if (axis > 1)
        throw std::logic_error("a matrix has the axes 0 and 1, not " + std::to_string(axis));
    return 1 - axis;
}

/// What a reduction along an axis leaves of a matrix without numbers: its start value everywhere.
Vector filled_along(const Matrix& matrix, std::size_t axis, double start)
{
    return Vector({matrix.shape(other_axis(axis))}, start);
}

/// Numbers of all tokens of a batch, by its sequences: (b n) as (b, n).
Matrix by_sequence(const Vector& numbers, std::size_t sequences, std::size_t length)
{
    Matrix result(Matrix::shape_type{sequences, length});
    std::ranges::copy(numbers, result.begin());
    return result;
}

/// Not xt::amax: that begins at the smallest finite number, which it then takes for the largest of minus infinities.
double larger(double left, double right) { return left > right || std::isnan(left) ? left : right; }

} // namespace

double sum_all(const Vector& vector) { return xt::sum(vector)(); }
double sum_all(const Matrix& matrix) { return xt::sum(matrix)(); }

Vector sum_along(const Matrix& matrix, std::size_t axis)
{
    const Vector nothing = filled_along(matrix, axis, 0);
    if (matrix.size() == 0)
        return nothing;
    return xt::sum(matrix, {axis});
}

double mean_all(const Vector& vector) { return sum_all(vector) / static_cast<double>(vector.size()); }
double mean_all(const Matrix& matrix) { return sum_all(matrix) / static_cast<double>(matrix.size()); }

Vector mean_along(const Matrix& matrix, std::size_t axis)
{
    return sum_along(matrix, axis) / static_cast<double>(matrix.shape(1 - other_axis(axis)));
}

Vector sum_of_features(const Matrix& tokens) { return sum_along(tokens, 1); }

Matrix sum_of_features(const Tensor3& batch)
{
    return by_sequence(sum_of_features(tokens_of(batch)), batch.shape(0), batch.shape(1));
}

Tensor3 sum_of_features(const Tensor4& groups)
{
    return batch_of(sum_of_features(as_batch(groups)), groups.shape(0), groups.shape(1));
}

Vector mean_of_features(const Matrix& tokens) { return mean_along(tokens, 1); }

Matrix mean_of_features(const Tensor3& batch)
{
    return by_sequence(mean_of_features(tokens_of(batch)), batch.shape(0), batch.shape(1));
}

double variance_all(const Matrix& matrix)
{
    const Matrix distances = matrix - mean_all(matrix);
    return mean_all(Matrix(distances * distances));
}

double max_all(const Vector& vector) { return std::accumulate(vector.begin(), vector.end(), minus_infinity, larger); }
double max_all(const Matrix& matrix) { return std::accumulate(matrix.begin(), matrix.end(), minus_infinity, larger); }

Vector max_along(const Matrix& matrix, std::size_t axis)
{
    Vector largest = filled_along(matrix, axis, minus_infinity);
    for (std::size_t i = 0; i < matrix.shape(0); ++i)
        for (std::size_t j = 0; j < matrix.shape(1); ++j) {
            double& so_far = largest(axis == 0 ? j : i);
            so_far = larger(so_far, matrix(i, j));
        }
    return largest;
}

} // namespace attn
