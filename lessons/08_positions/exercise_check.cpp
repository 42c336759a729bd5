// Holds exercise.cpp against the library.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/layers/position.hpp"

using namespace attn;

namespace {

void check(Lesson& lesson)
{
    for (const std::size_t d : {6, 5}) {
        Matrix mine(Matrix::shape_type{4, d});
        for (std::size_t p = 0; p < 4; ++p)
            for (std::size_t i = 0; i < d; ++i)
                mine(p, i) = my_sinusoid(p, i, d);
        lesson.expect_equal("my_sinusoid is the library's, for " + std::to_string(d) + " features", mine,
                            sinusoidal_positions(4, d));
    }

    // Two features make one pair, which turns a radian a place.
    const Matrix queries{{1, 2}, {1, 2}, {-3, 0.5}};
    Matrix mine(queries.shape());
    for (std::size_t p = 0; p < 3; ++p)
        xt::row(mine, static_cast<std::ptrdiff_t>(p)) =
            my_turned_pair(xt::row(queries, static_cast<std::ptrdiff_t>(p)), static_cast<double>(p));
    lesson.expect_equal("my_turned_pair is the library's rotary", mine, rotary(queries));
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("08_positions", argc, argv, check); }
