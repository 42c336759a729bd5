// Compares exercise 15 with the gradient of the loss that the lesson computes.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/terms.hpp"

#include <tuple>

using namespace attn;

namespace {

void compute(const Matrix& given, const Integers& classes, const Trace& trace)
{
    const Term logits = trace.given("logits[n, vocabulary]", given);
    const Integers targets = trace("targets[n]", "", classes);
    Matrix hot = xt::zeros<double>(logits.shape());
    Vector share = xt::zeros<double>({targets.size()});
    double count = 0;
    for (const std::int64_t target : targets)
        count += target >= 0 ? 1 : 0;
    for (std::size_t i = 0; i < targets.size(); ++i)
        if (targets(i) >= 0) {
            hot(i, static_cast<std::size_t>(targets(i))) = 1;
            share(i) = 1 / count;
        }
    const Term probabilities = trace("probabilities[n, vocabulary]", softmax(logits));
    const Term target_p =
        trace("target_p[n, vocabulary]",
              "where(targets[:, None] == arange(logits.shape[1]), 1.0, 0.0)", Term(hot));
    const Term difference = trace("difference[n, vocabulary]", probabilities - target_p);
    const Term shares =
        trace("shares[n]", "where(targets < 0, 0.0, 1.0) / sum(where(targets < 0, 0, 1))",
              Term(share));
    std::ignore = trace("grad_logits[n, vocabulary]", difference * each_row(shares));
}

void check(Exercise& exercise)
{
    RandomNumbers numbers(15);
    for (const Integers& targets :
         {Integers{2}, Integers{0, 3, 1}, Integers{1, -100, 0, -100}}) {
        const Matrix logits = numbers.matrix(targets.size(), 4, 4);
        Recorder run;
        compute(logits, targets, Trace(run));
        exercise.expect({"my_loss_gradient", {{"logits", logits}, {"targets", targets}}},
                        run, "grad_logits",
                        [&] { return my_loss_gradient(logits, targets); });
    }
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("15_training", argc, argv, check);
}
