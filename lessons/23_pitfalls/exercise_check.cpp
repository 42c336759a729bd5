// Holds exercise.cpp against attention that was masked in time.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/attention/mask.hpp"
#include "attn/ops/softmax.hpp"

#include <limits>

using namespace attn;

namespace {

void check(Lesson& lesson)
{
    const Matrix scores{{2, 1, 0, 3}, {0.5, -1, 4, 0}, {1, 1, 1, 1}, {-2, 0, 2, 8}};
    const AnyMask mask = causal_mask(4, 4);
    const Matrix late = apply_mask(mask, softmax(scores), 0);
    const Matrix in_time =
        softmax(apply_mask(mask, scores, -std::numeric_limits<double>::infinity()));
    lesson.expect_equal("my_repaired_weights are those that were masked in time",
                        my_repaired_weights(late), in_time);
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("23_pitfalls", argc, argv, check); }
