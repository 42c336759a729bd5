// Holds exercise.cpp against numbers that say where they come from.

#include "exercise.hpp"

#include "../lesson.hpp"

using namespace attn;

namespace {

void check(Lesson& lesson)
{
    // Hundreds are the head, tens the token, ones the feature.
    const Tensor3 two_heads{{{0, 1}, {10, 11}, {20, 21}},
                            {{100, 101}, {110, 111}, {120, 121}}};
    const Matrix expected{{0, 1, 100, 101}, {10, 11, 110, 111}, {20, 21, 120, 121}};
    lesson.expect_equal("my_merged_heads puts two heads of three tokens side by side",
                        my_merged_heads(two_heads), expected);
    const Tensor3 three_heads{{{0}, {10}}, {{100}, {110}}, {{200}, {210}}};
    lesson.expect_equal("my_merged_heads puts three heads of one feature side by side",
                        my_merged_heads(three_heads),
                        Matrix{{0, 100, 200}, {10, 110, 210}});
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("06_multi_head", argc, argv, check);
}
