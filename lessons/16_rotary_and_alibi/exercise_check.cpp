// Compares exercise 16 with the library.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/layers/position.hpp"
#include "attn/reference/layers/rotary.hpp"

using namespace attn;

namespace {

Matrix turned_pairs(const Matrix& pairs, const Vector& angles)
{
    Matrix turned(pairs.shape());
    for (std::size_t i = 0; i < pairs.shape(0); ++i) {
        const auto row = static_cast<std::ptrdiff_t>(i);
        const Vector pair = xt::row(pairs, row);
        xt::row(turned, row) = my_turned_pair(pair, angles(i));
    }
    return turned;
}

Matrix bias_of_pairs(double slope)
{
    Matrix bias(Matrix::shape_type{4, 4});
    for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t j = 0; j < 4; ++j)
            bias(i, j) = my_alibi_bias(i, j, slope);
    return bias;
}

void check(Exercise& exercise)
{
    // Two features make one pair, which is rotated by one radian per position.
    const Matrix pair{{1, 2}, {1, 2}, {-3, 0.5}};
    const Vector angle{0, 1, 2};
    Recorder turned;
    rotary(pair, {}, Trace(turned));
    exercise.expect({.function = "my_turned_pair",
                     .arguments = {{"pair", pair}, {"angle", angle}},
                     .per = "row of pair"},
                    turned, "output", [&] { return turned_pairs(pair, angle); });

    Recorder priced;
    alibi_bias(4, 4, 0.25, Trace(priced));
    const IntegerMatrix query{{0}, {1}, {2}, {3}};
    exercise.expect(
        {.function = "my_alibi_bias",
         .arguments = {{"query", query}, {"key", Integers{0, 1, 2, 3}}, {"slope", 0.25}},
         .per = "number"},
        priced, "bias", [] { return bias_of_pairs(0.25); });
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("16_rotary_and_alibi", argc, argv, check);
}
