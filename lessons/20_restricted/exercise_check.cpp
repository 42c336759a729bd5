// Compares exercise.cpp with the library.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/attention/restricted.hpp"

using namespace attn;

namespace {

void check(Lesson& lesson)
{
    const Matrix x{{1, 0, 1}, {0, 2, 0}, {1, 1, 1}, {2, 0, 0}, {0, 1, 2}, {1, 2, 0}};
    for (const std::size_t radius : {2, 1, 0, 9})
        lesson.expect_equal(
            "my_past_window is the library's, with a radius of " + std::to_string(radius),
            my_past_window(x, radius),
            restricted_attention(
                x, x, x, {.neighbourhood = {.radius = radius, .side = Side::causal}})
                .context);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("20_restricted", argc, argv, check);
}
