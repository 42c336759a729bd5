// Compares exercise.cpp with the library.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/ops/random.hpp"

using namespace attn;

namespace {

Matrix row(const Matrix& matrix, std::size_t i)
{
    return xt::view(matrix, xt::range(i, i + 1), xt::all());
}

void check(Lesson& lesson)
{
    RandomNumbers numbers(18);
    const Matrix queries = numbers.matrix(5, 4), keys = numbers.matrix(5, 4),
                 values = numbers.matrix(5, 3);
    const Matrix expected =
        scaled_dot_product_attention(queries, keys, values, causal_mask(5, 5)).context;
    KeyValueCache cache{Matrix(Matrix::shape_type{0, 4}),
                        Matrix(Matrix::shape_type{0, 3})};
    for (std::size_t i = 0; i < 5; ++i)
        lesson.expect_equal(
            "my_cached_attention gives token " + std::to_string(i) +
                " what it has among all",
            my_cached_attention(row(queries, i), row(keys, i), row(values, i), cache),
            row(expected, i));
    lesson.expect_equal("my_cached_attention keeps every key", cache.keys, keys);
    lesson.expect_equal("my_cached_attention keeps every value", cache.values, values);
    lesson.expect("my_numbers_per_token counts keys and values of every layer",
                  my_numbers_per_token(5, 4, 8) == 320);
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("17_story", argc, argv, check); }
