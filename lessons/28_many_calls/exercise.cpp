// Exercise 28: one call of many.
//
// Write the function that exercise.hpp describes. It is checked by
//
//     script/exercise 28

#include "exercise.hpp"

using namespace attn;

Matrix my_call(const Matrix& queries, const Matrix& /*new_keys*/,
               const Matrix& new_values, const Vector& /*positions*/,
               const Matrix& /*past_keys*/, const Matrix& /*past_values*/,
               const Vector& /*past_positions*/, std::size_t /*width*/)
{
    Matrix context(Matrix::shape_type{queries.shape(0), new_values.shape(1)}, 0.0);
    // To do. Which keys are there in all, and where does the token of each stand? Which of
    // them are not later than a query's token, and near enough?
    return context;
}
