// Compares exercise 5 with a mask applied before softmax, as the library does it.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/attention/mask.hpp"
#include "attn/reference/ops/terms.hpp"

#include <tuple>

using namespace attn;

namespace {

void compute(const Matrix& given, std::int64_t length, const Trace& trace)
{
    const Term scores = trace.given("scores[n, m]", given);
    trace.alias("scaled", "scores");
    const Mask causal = causal_mask(4, 4, Causal::bottom_right, trace);
    const Mask padding = padding_mask(Integers{length}, 4, trace);
    const Term mask = trace("mask[n, m]", named(causal, "causal", trace) &
                                              named(padding, "padding", trace));
    const Term masked = trace("masked[n, m]", where(mask, scores, minus_infinity));
    std::ignore = trace("weights[n, m]", softmax(masked));
}

void check(Exercise& exercise)
{
    const Matrix scores{{2, 1, 0, 3}, {0.5, -1, 4, 0}, {1, 1, 1, 1}, {-2, 0, 2, 8}};
    for (const std::size_t length : {4, 2, 1}) {
        Recorder run;
        compute(scores, static_cast<std::int64_t>(length), Trace(run));
        exercise.expect({"my_masked_weights", {{"scores", scores}, {"length", length}}},
                        run, "weights",
                        [&] { return my_masked_weights(scores, length); });
    }
}

} // namespace

int main(int argc, char** argv) { return Exercise::run("05_masking", argc, argv, check); }
