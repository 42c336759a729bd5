// Holds exercise.cpp against the library, where softmax is easily wrong.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/ops/softmax.hpp"

#include <limits>

using namespace attn;

namespace {

void check(Lesson& lesson)
{
    const double minus_infinity = -std::numeric_limits<double>::infinity();
    const auto expect_softmax = [&](std::string_view claim, const Vector& scores) {
        lesson.expect_equal(claim, my_softmax(scores), softmax(scores));
    };
    expect_softmax("my_softmax is right for 1, 2 and 3", {1, 2, 3});
    expect_softmax("and for 1000, 1001 and 1002", {1000, 1001, 1002});
    expect_softmax("and for -1000, -1001 and -1002", {-1000, -1001, -1002});
    expect_softmax("and gives a forbidden key nothing", {1, minus_infinity, 3});
    expect_softmax("and gives nothing where every key is forbidden",
                   {minus_infinity, minus_infinity});

    lesson.expect_equal("my_divisor is the root of d_k for unit variance",
                        Vector{my_divisor(64, 1)}, Vector{8});
    lesson.expect_equal("and four times that for variance 4", Vector{my_divisor(64, 4)},
                        Vector{32});
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("03_scale_and_softmax", argc, argv, check);
}
