// Compares exercise 3 with the library, with scores for which softmax is easily wrong.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/ops/terms.hpp"

#include <tuple>

using namespace attn;

namespace {

void expect_softmax(Exercise& exercise, const Vector& scores)
{
    Recorder run;
    const Trace trace(run);
    std::ignore = trace("weights[m]", softmax(trace.given("scores[m]", scores)));
    exercise.expect({"my_softmax", {{"scores", scores}}}, run, "weights",
                    [&] { return my_softmax(scores); });
}

void expect_divisor(Exercise& exercise, double variance, double right)
{
    Recorder run;
    const Trace trace(run);
    const std::int64_t d_k = trace("d_k", "", std::int64_t{64});
    std::ignore = trace("variance", "", variance);
    std::ignore = trace("divisor", "sqrt(d_k * variance ** 2)", right);
    exercise.expect({"my_divisor", {{"d_k", d_k}, {"variance", variance}}}, run,
                    "divisor", [&] { return my_divisor(64, variance); });
}

void check(Exercise& exercise)
{
    for (const Vector& scores :
         {Vector{1, 2, 3}, Vector{1000, 1001, 1002}, Vector{-1000, -1001, -1002},
          Vector{1, minus_infinity, 3}})
        expect_softmax(exercise, scores);
    expect_divisor(exercise, 1, 8);
    expect_divisor(exercise, 4, 32);
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("03_scale_and_softmax", argc, argv, check);
}
