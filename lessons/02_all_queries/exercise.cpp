// Exercise 2: the attention of all queries, with tokens as rows and as columns.
//
// Write the two functions that exercise.hpp describes, with matmul(), transpose(), and
// softmax(), which works along the last axis. It is checked by
//
//     script/exercise 2

#include "exercise.hpp"

#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/softmax.hpp"

using namespace attn;

Matrix my_attention(const Matrix& queries, const Matrix& /*keys*/, const Matrix& values)
{
    // To do, in three lines: scores, weights, output. The output has one row per query,
    // and each row has as many numbers as a value.
    return xt::zeros<double>({queries.shape(0), values.shape(1)});
}

Matrix my_attention_in_columns(const Matrix& Q, const Matrix& /*K*/, const Matrix& V)
{
    // To do, in one line that calls my_attention. Which arguments must be transposed?
    // Must the result be transposed?
    return xt::zeros<double>({V.shape(0), Q.shape(1)});
}
