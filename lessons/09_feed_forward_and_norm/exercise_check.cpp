// Compares exercise 9 with the library.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/layers/layer_norm.hpp"

using namespace attn;

namespace {

Matrix normalized_tokens(const Matrix& x, double epsilon)
{
    Matrix normalized(x.shape());
    for (std::size_t i = 0; i < x.shape(0); ++i) {
        const auto row = static_cast<std::ptrdiff_t>(i);
        const Vector token = xt::row(x, row);
        xt::row(normalized, row) = my_normalized(token, epsilon);
    }
    return normalized;
}

void check(Exercise& exercise)
{
    const Matrix x{{1, 2, 3, 6}, {1.001, 0.999, 1.001, 1}, {7, 7, 7, 7}};
    for (const double epsilon : {1e-5, 0.5}) {
        Recorder run;
        layer_norm(x, {xt::ones<double>({4})}, {.epsilon = epsilon}, Trace(run));
        exercise.expect({.function = "my_normalized",
                         .arguments = {{"x", x}, {"epsilon", epsilon}},
                         .per = "row of x"},
                        run, "normalized", [&] { return normalized_tokens(x, epsilon); });
    }
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("09_feed_forward_and_norm", argc, argv, check);
}
