// Compares exercise 27 with decay, recall, difference and sum, step by step.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/terms.hpp"

#include <tuple>

using namespace attn;

namespace {

void expect_step(Exercise& exercise, const Matrix& previous_state, const Vector& key,
                 const Vector& value, double beta, double decay)
{
    Recorder run;
    const Trace trace(run);
    const Term previous = trace.given("previous_state[d_k, d_v]", previous_state);
    const Term asked = trace.given("key[d_k]", key);
    const Term wanted = trace.given("value[d_v]", value);
    const Term written = trace.given("beta", beta), kept = trace.given("decay", decay);
    const Term decayed = trace("decayed[d_k, d_v]", kept * previous);
    const Term recalled = trace("recalled[d_v]", matmul(asked, decayed));
    const Term delta = trace("delta[d_v]", written * (wanted - recalled));
    std::ignore = trace("state[d_k, d_v]", decayed + outer(asked, delta));
    exercise.expect({"my_delta_step",
                     {{"previous_state", previous_state},
                      {"key", key},
                      {"value", value},
                      {"beta", beta},
                      {"decay", decay}}},
                    run, "state", [&] {
                        return my_delta_step(previous_state, key, value, beta, decay);
                    });
}

void check(Exercise& exercise)
{
    expect_step(exercise, {{1, 2}, {3, 4}}, {0.6, 0.8}, {5, -1}, 0.5, 0.5);
    expect_step(exercise, {{1, 0, 2}, {0, 3, 1}}, {0, 1}, {4, 4, 4}, 1, 0.9);
    RandomNumbers numbers(27);
    const Matrix state = numbers.matrix(4, 3);
    expect_step(exercise, state, {0.5, -0.5, 0.5, 0.5}, numbers.vector(3), 0.7, 1);
}

} // namespace

int main(int argc, char** argv) { return Exercise::run("27_state", argc, argv, check); }
