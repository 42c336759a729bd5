// Holds exercise.cpp against the library, with fewer queries than keys: a wrong axis can't hide behind a square.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/attention/dot_product.hpp"
#include "attn/ops/matmul.hpp"

using namespace attn;

namespace {

void check(Lesson& lesson)
{
    const Matrix queries{{1, 0, 2}, {2, 1, 3}};
    const Matrix keys{{0, 1, 1}, {4, 4, 0}, {2, 3, 1}};
    const Matrix values{{1, 2}, {2, 8}, {2, 6}};
    const Matrix expected = dot_product_attention(queries, keys, values).context;

    lesson.expect_equal("my_attention gives a row for each query",
                        my_attention(queries, keys, values), expected);
    lesson.expect_equal(
        "my_attention_in_columns gives a column for each query",
        my_attention_in_columns(transpose(queries), transpose(keys), transpose(values)),
        transpose(expected));
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("02_all_queries", argc, argv, check);
}
