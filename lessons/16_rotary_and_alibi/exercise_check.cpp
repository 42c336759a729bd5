// Compares exercise.cpp with the library.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/layers/position.hpp"

using namespace attn;

namespace {

void check(Lesson& lesson)
{
    // Two features make one pair, which is rotated by one radian per position.
    const Matrix queries{{1, 2}, {1, 2}, {-3, 0.5}};
    Matrix rotated(queries.shape());
    for (std::size_t p = 0; p < 3; ++p)
        xt::row(rotated, static_cast<std::ptrdiff_t>(p)) = my_turned_pair(
            xt::row(queries, static_cast<std::ptrdiff_t>(p)), static_cast<double>(p));
    lesson.expect_equal("my_turned_pair is the library's rotary", rotated,
                        rotary(queries));

    Matrix bias(Matrix::shape_type{4, 4});
    for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t j = 0; j < 4; ++j)
            bias(i, j) = my_alibi_bias(i, j, 0.25);
    lesson.expect_equal("my_alibi_bias is the library's", bias, alibi_bias(4, 4, 0.25));
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("16_rotary_and_alibi", argc, argv, check);
}
