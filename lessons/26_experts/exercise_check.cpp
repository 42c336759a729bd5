// Compares exercise 26 with the choice, the weights and the sum, step by step.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"
#include "attn/reference/ops/top_k.hpp"

#include <tuple>

using namespace attn;

namespace {

/// The scores of the largest, and 0 in place of the others; of equal ones the first stay.
Vector largest(const Vector& scores, std::size_t top)
{
    const Matrix row = xt::view(scores, xt::newaxis(), xt::all());
    const Mask chosen = top_k(row, top);
    const Matrix kept = xt::where(chosen, row, 0.0);
    return xt::row(kept, 0);
}

void expect_mixture(Exercise& exercise, const Vector& router_logits,
                    const Matrix& expert_outputs, const Vector& shared_output,
                    std::size_t top, bool is_normalized)
{
    Recorder run;
    const Trace trace(run);
    std::ignore = trace("router_logits[experts]", "", router_logits);
    std::ignore = trace("expert_outputs[experts, d_model]", "", expert_outputs);
    std::ignore = trace("shared_output[d_model]", "", shared_output);
    const Vector scores =
        trace("scores[experts]", "softmax(router_logits)", softmax(router_logits));
    Vector weights = trace("chosen_scores[experts]",
                           "where(top_k(scores, " + std::to_string(top) + "), scores, 0)",
                           largest(scores, top));
    if (is_normalized)
        weights = trace("normalized[experts]", "chosen_scores / sum(chosen_scores)",
                        Vector(weights / sum_all(weights)));
    trace.alias("weights", is_normalized ? "normalized" : "chosen_scores");
    const Vector routed = trace("routed[d_model]", "weights @ expert_outputs",
                                matmul(weights, expert_outputs));
    std::ignore = trace("output[d_model]", "routed + shared_output",
                        Vector(routed + shared_output));
    exercise.expect({"my_mixture",
                     {{"router_logits", router_logits},
                      {"expert_outputs", expert_outputs},
                      {"shared_output", shared_output},
                      {"top", top},
                      {"is_normalized", is_normalized}}},
                    run, "output", [&] {
                        return my_mixture(router_logits, expert_outputs, shared_output,
                                          top, is_normalized);
                    });
}

void check(Exercise& exercise)
{
    const Matrix outputs{{1, 0}, {0, 1}, {2, -1}, {-1, 3}};
    expect_mixture(exercise, {0, 1, 2, -1}, outputs, {0.5, 0.25}, 2, true);
    expect_mixture(exercise, {0, 1, 2, -1}, outputs, {0.5, 0.25}, 2, false);
    expect_mixture(exercise, {3, 1, -2, 1.5}, outputs, {0, 0}, 1, true);
    RandomNumbers numbers(26);
    const Vector logits = numbers.vector(6);
    const Matrix drawn = numbers.matrix(6, 3);
    expect_mixture(exercise, logits, drawn, numbers.vector(3), 3, false);
}

} // namespace

int main(int argc, char** argv) { return Exercise::run("26_experts", argc, argv, check); }
