// Compares exercise 14 with the formulas of the lesson.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <cmath>
#include <limits>
#include <tuple>

using namespace attn;

namespace {

/// By the whole Jacobian of each row.
Matrix right_score_gradient(const Matrix& weights, const Matrix& arriving)
{
    Matrix gradient(weights.shape());
    for (std::size_t i = 0; i < weights.shape(0); ++i) {
        const Vector row = xt::row(weights, i), from = xt::row(arriving, i);
        xt::row(gradient, i) = matmul(softmax_jacobian(row), from);
    }
    return gradient;
}

void expect_score_gradient(Exercise& exercise, const Matrix& scores,
                           const Matrix& given_arriving)
{
    Recorder run;
    const Trace trace(run), grad = trace.scope("grad");
    const Matrix weights = trace("weights[n, m]", "", softmax(scores));
    const Matrix arriving = trace("arriving[n, m]", "", given_arriving);
    std::ignore =
        grad("scaled[n, m]",
             "weights * (arriving - sum(arriving * weights, axis=-1, keepdims=True))",
             right_score_gradient(weights, arriving));
    exercise.expect({"my_score_gradient", {{"weights", weights}, {"arriving", arriving}}},
                    run, "grad.scaled",
                    [&] { return my_score_gradient(weights, arriving); });
}

void expect_key_gradient(Exercise& exercise, const Matrix& given_arriving,
                         const Matrix& given_queries)
{
    Recorder run;
    const Trace trace(run), grad = trace.scope("grad");
    const Matrix arriving = grad("scaled[n, m]", "", given_arriving);
    const Matrix queries = trace("queries[n, d_k]", "", given_queries);
    // No number of the keys has a part in their gradient, but their width has.
    const Matrix keys =
        trace("keys[m, d_k]", "", Matrix({arriving.shape(1), queries.shape(1)}, 0.0));
    const double root = std::sqrt(static_cast<double>(keys.shape(1)));
    const Matrix by_scores = grad("scores[n, m]", "grad.scaled / sqrt(keys.shape[-1])",
                                  Matrix(arriving / root));
    std::ignore = grad("keys[m, d_k]", "grad.scores.T @ queries",
                       matmul(transpose(by_scores), queries));
    exercise.expect({"my_key_gradient", {{"arriving", arriving}, {"queries", queries}}},
                    run, "grad.keys", [&] { return my_key_gradient(arriving, queries); });
}

void check(Exercise& exercise)
{
    constexpr double infinity = std::numeric_limits<double>::infinity();
    expect_score_gradient(exercise, {{1, 2, 3}}, {{1, 0, 0}});
    expect_score_gradient(exercise,
                          {{0, 1, -infinity}, {-infinity, -infinity, -infinity}},
                          {{1, 2, 3}, {1, 2, 3}});
    RandomNumbers numbers(14);
    expect_score_gradient(exercise, numbers.matrix(3, 4, 4), numbers.matrix(3, 4));
    expect_key_gradient(exercise, {{1, -1, 2}},
                        {{1, 2, 3, 4}}); // no count is 2, the root
    expect_key_gradient(exercise, numbers.matrix(3, 4), numbers.matrix(3, 2));
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("14_gradients", argc, argv, check);
}
