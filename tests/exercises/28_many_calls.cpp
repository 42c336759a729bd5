#include "28_many_calls/exercise.hpp"

#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <cmath>
#include <limits>

using namespace attn;

Matrix my_call(const Matrix& queries, const Matrix& new_keys, const Matrix& new_values,
               const Vector& positions, const Matrix& past_keys,
               const Matrix& past_values, const Vector& past_positions, std::size_t width)
{
    const Matrix keys = concat_rows(past_keys, new_keys);
    const Matrix values = concat_rows(past_values, new_values);
    Matrix scores = matmul(queries, transpose(keys));
    scores /= std::sqrt(static_cast<double>(queries.shape(1)));
    const std::size_t past = past_positions.size();
    for (std::size_t i = 0; i < scores.shape(0); ++i)
        for (std::size_t j = 0; j < scores.shape(1); ++j) {
            const double key = j < past ? past_positions(j) : positions(j - past);
            const bool is_near = key + static_cast<double>(width) > positions(i);
            if (key > positions(i) || !is_near)
                scores(i, j) = -std::numeric_limits<double>::infinity();
        }
    return matmul(softmax(scores), values);
}
