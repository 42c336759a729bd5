// Compares exercise.cpp with the library.

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
        lesson.expect_equal("my_sinusoid is the library's, for " + std::to_string(d) +
                                " features",
                            mine, sinusoidal_positions(4, d));
    }
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("08_positions", argc, argv, check); }
