// Compares the functions of exercise 1 with the numbers of lesson 1.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/ops/terms.hpp"

#include <tuple>

using namespace attn;

namespace {

void check(Exercise& exercise)
{
    Recorder run;
    const Trace trace(run);
    const Term query = trace.given("query[d_k]", Vector{1, 0, 2});
    const Term keys =
        trace.given("keys[m, d_k]", Matrix{{0, 1, 1}, {4, 4, 0}, {2, 3, 1}});
    const Term values =
        trace.given("values[m, d_v]", Matrix{{1, 2, 3}, {2, 8, 0}, {2, 6, 3}});
    const Term scores = trace("scores[m]", matmul(keys, query));
    const Term weights = trace("weights[m]", softmax(scores));
    std::ignore = trace("output[d_v]", matmul(weights, values));

    exercise.expect({"my_scores", {{"query", *query}, {"keys", *keys}}}, run, "scores",
                    [&] { return my_scores(*query, *keys); });
    exercise.expect({"my_weights", {{"scores", *scores}}}, run, "weights",
                    [&] { return my_weights(*scores); });
    exercise.expect({"my_output", {{"weights", *weights}, {"values", *values}}}, run,
                    "output", [&] { return my_output(*weights, *values); });
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("01_single_query", argc, argv, check);
}
