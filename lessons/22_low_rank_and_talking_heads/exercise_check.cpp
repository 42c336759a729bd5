// Compares exercise 22 with numbers by hand.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include <tuple>

using namespace attn;

namespace {

void expect_mixed(Exercise& exercise, const Tensor3& scores, const Matrix& mixture,
                  const Tensor3& right)
{
    Recorder run;
    const Trace trace(run);
    std::ignore = trace("scores[h_k, n, m]", "", scores);
    std::ignore = trace("mixture[h_k, h]", "", mixture);
    std::ignore = trace("mixed[h, n, m]",
                        "permute(permute(scores, 1, 2, 0) @ mixture, 2, 0, 1)", right);
    exercise.expect({"my_mixed_heads", {{"scores", scores}, {"mixture", mixture}}}, run,
                    "mixed", [&] { return my_mixed_heads(scores, mixture); });
}

void check(Exercise& exercise)
{
    // Tens are the scores of the first head, ones those of the second.
    const Tensor3 scores{{{10, 20, 30}, {40, 50, 60}}, {{1, 2, 3}, {4, 5, 6}}};
    expect_mixed(exercise, scores, {{1, 0}, {0, 1}}, scores);
    expect_mixed(exercise, scores, {{1, 0}, {2, -1}},
                 {{{12, 24, 36}, {48, 60, 72}}, {{-1, -2, -3}, {-4, -5, -6}}});
    expect_mixed(exercise, scores, {{1, 0, 1}, {0, 1, 1}},
                 {{{10, 20, 30}, {40, 50, 60}},
                  {{1, 2, 3}, {4, 5, 6}},
                  {{11, 22, 33}, {44, 55, 66}}});
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("22_low_rank_and_talking_heads", argc, argv, check);
}
