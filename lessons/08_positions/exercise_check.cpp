// Compares exercise 8 with the library.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/layers/position.hpp"

using namespace attn;

namespace {

Matrix table_of(std::size_t d)
{
    Matrix table(Matrix::shape_type{4, d});
    for (std::size_t p = 0; p < 4; ++p)
        for (std::size_t i = 0; i < d; ++i)
            table(p, i) = my_sinusoid(p, i, d);
    return table;
}

void check(Exercise& exercise)
{
    for (const std::size_t d : {6, 5}) {
        Recorder run;
        sinusoidal_positions(4, d, {}, Trace(run));
        const IntegerMatrix position{{0}, {1}, {2}, {3}};
        const Integers feature = xt::arange<std::int64_t>(static_cast<std::int64_t>(d));
        exercise.expect(
            {.function = "my_sinusoid",
             .arguments = {{"position", position}, {"feature", feature}, {"d", d}},
             .per = "number"},
            run, "positions", [&] { return table_of(d); });
    }
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("08_positions", argc, argv, check);
}
