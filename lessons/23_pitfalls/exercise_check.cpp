// Compares exercise 23 with weights that were masked before softmax.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/attention/mask.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <tuple>

using namespace attn;

namespace {

void check(Exercise& exercise)
{
    const Matrix scores{{2, 1, 0, 3}, {0.5, -1, 4, 0}, {1, 1, 1, 1}, {-2, 0, 2, 8}};
    const Mask mask = causal_mask(4, 4);
    Recorder run;
    const Trace trace(run);
    const Matrix weights =
        trace("weights[n, m]", "", apply_mask(mask, softmax(scores), 0));
    std::ignore =
        trace("repaired[n, m]", "weights / sum(weights, axis=-1, keepdims=True)",
              softmax(apply_mask(mask, scores, minus_infinity)));
    exercise.expect({"my_repaired_weights", {{"weights", weights}}}, run, "repaired",
                    [&] { return my_repaired_weights(weights); });
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("23_pitfalls", argc, argv, check);
}
