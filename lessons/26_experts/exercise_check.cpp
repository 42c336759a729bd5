// Compares exercise 26 with the choice, the weights and the sum, step by step.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/terms.hpp"

#include <tuple>

using namespace attn;

namespace {

/// The scores of the largest, and 0 in place of the others; of equal ones the first stay.
Term<Vector> largest(const Term<Vector>& scores, std::size_t top)
{
    const Term all = in_front(scores); // top_k takes rows
    const Term kept = where(top_k(all, top), all, 0);
    return row(kept, 0);
}

void expect_mixture(Exercise& exercise, const Vector& router_logits,
                    const Matrix& expert_outputs, const Vector& shared_output,
                    std::size_t top, bool is_normalized)
{
    Recorder run;
    const Trace trace(run);
    const Term logits = trace.given("router_logits[experts]", router_logits);
    const Term outputs = trace.given("expert_outputs[experts, d_model]", expert_outputs);
    const Term shared = trace.given("shared_output[d_model]", shared_output);
    const Term scores = trace("scores[experts]", softmax(logits));
    Term weights = trace("chosen_scores[experts]",
                         "where(top_k(scores, " + std::to_string(top) + "), scores, 0)",
                         largest(scores, top));
    if (is_normalized)
        weights = trace("normalized[experts]", weights / sum_all(weights));
    weights = trace.alias("weights", weights);
    const Term routed = trace("routed[d_model]", matmul(weights, outputs));
    std::ignore = trace("output[d_model]", routed + shared);
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
