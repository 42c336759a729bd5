// Compares exercise 6 with numbers that say where they come from.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include <tuple>

using namespace attn;

namespace {

void expect_merged(Exercise& exercise, const Tensor3& contexts, std::string_view formula,
                   const Matrix& right)
{
    Recorder run;
    const Trace trace(run);
    std::ignore = trace("contexts[h, n, d_v]", "", contexts);
    std::ignore = trace("merged[n, h_d_v]", formula, right);
    exercise.expect({"my_merged_heads", {{"contexts", contexts}}}, run, "merged",
                    [&] { return my_merged_heads(contexts); });
}

void check(Exercise& exercise)
{
    // Hundreds are the head, tens the token, ones the feature.
    expect_merged(exercise,
                  {{{0, 1}, {10, 11}, {20, 21}}, {{100, 101}, {110, 111}, {120, 121}}},
                  "concat(contexts[0], contexts[1], axis=-1)",
                  {{0, 1, 100, 101}, {10, 11, 110, 111}, {20, 21, 120, 121}});
    expect_merged(exercise, {{{0}, {10}}, {{100}, {110}}, {{200}, {210}}},
                  "concat(contexts[0], contexts[1], contexts[2], axis=-1)",
                  {{0, 100, 200}, {10, 110, 210}});
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("06_multi_head", argc, argv, check);
}
