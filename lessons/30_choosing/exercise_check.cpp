// Compares exercise 30 with token_probabilities() and speculate(), step by step.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/models/sampling.hpp"
#include "attn/reference/ops/random.hpp"

#include <tuple>

using namespace attn;

namespace {

void expect_probabilities(Exercise& exercise, const Matrix& logits, double temperature,
                          double top_p)
{
    Recorder run;
    const SamplingOptions options{.temperature = temperature, .top_p = top_p};
    std::ignore = token_probabilities(logits, options, Trace(run));
    exercise.expect(
        {"my_probabilities",
         {{"logits", logits}, {"temperature", temperature}, {"top_p", top_p}}},
        run, "probabilities",
        [&] { return my_probabilities(logits, temperature, top_p); });
}

/// @param guess  a token that the draft gives more than the target, so that it can be
/// rejected
void expect_next(Exercise& exercise, const Vector& target, const Vector& draft,
                 std::int64_t guess)
{
    Recorder run;
    const std::size_t vocabulary = target.size();
    Matrix own(Matrix::shape_type{2, vocabulary}),
        other(Matrix::shape_type{1, vocabulary});
    for (std::size_t token = 0; token < vocabulary; ++token) {
        own(0, token) = own(1, token) = target(token);
        other(0, token) = draft(token);
    }
    std::ignore = speculate({guess}, other, own, {1 - 0x1p-24}, Trace(run));
    exercise.expect({"my_next", {{"target", target}, {"draft", draft}}}, run, "next",
                    [&] { return my_next(target, draft); });
}

void check(Exercise& exercise)
{
    expect_probabilities(exercise, {{2, 1, 0, -1}, {0, 0.5, 0.25, 1}}, 1, 0.8);
    expect_probabilities(exercise, {{1, 3, 2, 0, 1}}, 2, 0.75);
    expect_probabilities(exercise, {{0, 1, 1, 0}}, 0.5, 0.4);
    RandomNumbers numbers(30);
    const Matrix logits = numbers.matrix(3, 6, 4);
    expect_probabilities(exercise, logits, 1.5, 0.9);
    expect_next(exercise, {0.5, 0.25, 0.25}, {0.25, 0.5, 0.25}, 1);
    expect_next(exercise, {0.125, 0.5, 0.25, 0.125}, {0.5, 0.125, 0.125, 0.25}, 0);
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("30_choosing", argc, argv, check);
}
