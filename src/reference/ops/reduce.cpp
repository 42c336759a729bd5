#include "attn/reference/ops/reduce.hpp"

#include "attn/reference/ops/terms.hpp"

#include <stdexcept>
#include <string>

namespace attn {
namespace {

int axis_of_matrix(std::size_t axis)
{
    if (axis > 1)
        throw std::logic_error("a matrix has the axes 0 and 1, not " + std::to_string(axis));
    return static_cast<int>(axis);
}

} // namespace

double sum_all(const Vector& vector) { return *sum_all(Term(vector)); }
double sum_all(const Matrix& matrix) { return *sum_all(Term(matrix)); }
double mean_all(const Vector& vector) { return *mean_all(Term(vector)); }
double mean_all(const Matrix& matrix) { return *mean_all(Term(matrix)); }
double max_all(const Vector& vector) { return *max_all(Term(vector)); }
double max_all(const Matrix& matrix) { return *max_all(Term(matrix)); }

Vector sum_along(const Matrix& matrix, std::size_t axis) { return *sum_along(Term(matrix), axis_of_matrix(axis)); }
Vector mean_along(const Matrix& matrix, std::size_t axis) { return *mean_along(Term(matrix), axis_of_matrix(axis)); }
Vector max_along(const Matrix& matrix, std::size_t axis) { return *max_along(Term(matrix), axis_of_matrix(axis)); }

Vector sum_of_features(const Matrix& tokens) { return *sum_along(Term(tokens), -1); }
Matrix sum_of_features(const Tensor3& batch) { return *sum_along(Term(batch), -1); }
Tensor3 sum_of_features(const Tensor4& groups) { return *sum_along(Term(groups), -1); }
Vector mean_of_features(const Matrix& tokens) { return *mean_along(Term(tokens), -1); }
Matrix mean_of_features(const Tensor3& batch) { return *mean_along(Term(batch), -1); }

double variance_all(const Matrix& matrix)
{
    const Term numbers(matrix);
    return *mean_all(square(numbers - mean_all(numbers)));
}

} // namespace attn
