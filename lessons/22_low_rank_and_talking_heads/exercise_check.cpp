// Compares exercise.cpp with numbers by hand.

#include "exercise.hpp"

#include "../lesson.hpp"

using namespace attn;

namespace {

void check(Lesson& lesson)
{
    // Tens are the first head's, ones the second's.
    const Tensor3 scores{{{10, 20, 30}, {40, 50, 60}}, {{1, 2, 3}, {4, 5, 6}}};
    lesson.expect_equal(
        "my_mixed_heads leaves heads alone where the mixture is the identity",
        my_mixed_heads(scores, {{1, 0}, {0, 1}}), scores);
    lesson.expect_equal(
        "my_mixed_heads takes columns, not rows, of the mixture",
        my_mixed_heads(scores, {{1, 0}, {2, -1}}),
        Tensor3{{{12, 24, 36}, {48, 60, 72}}, {{-1, -2, -3}, {-4, -5, -6}}});
    lesson.expect_equal("my_mixed_heads makes three mixtures of two heads",
                        my_mixed_heads(scores, {{1, 0, 1}, {0, 1, 1}}),
                        Tensor3{{{10, 20, 30}, {40, 50, 60}},
                                {{1, 2, 3}, {4, 5, 6}},
                                {{11, 22, 33}, {44, 55, 66}}});
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("22_low_rank_and_talking_heads", argc, argv, check);
}
