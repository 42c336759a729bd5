// Compares exercise 18 with the formulas of the lesson.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <cmath>
#include <limits>
#include <tuple>

using namespace attn;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Attention to some keys, from their scores.
Part attend(const Matrix& scores, const Matrix& values)
{
    Part part{matmul(softmax(scores), values), max_along(scores, 1),
              xt::zeros<double>({scores.shape(0)})};
    for (std::size_t i = 0; i < scores.shape(0); ++i)
        for (std::size_t j = 0; j < scores.shape(1); ++j)
            if (scores(i, j) != -infinity)
                part.sum(i) += std::exp(scores(i, j) - part.largest(i));
    return part;
}

/// @param first, second    the scores of two sets of keys, (n, m) each
/// @param values, further  of their values, (m, d_v) each
void expect_merged(Exercise& exercise, const Matrix& first, const Matrix& values,
                   const Matrix& second, const Matrix& further)
{
    Recorder run;
    const Trace trace(run);
    const auto given = [&](const std::string& name, const Part& part) {
        return Part{trace(name + "_context[n, d_v]", "", part.context),
                    trace(name + "_largest[n]", "", part.largest),
                    trace(name + "_sum[n]", "", part.sum)};
    };
    const Part a = given("first", attend(first, values));
    const Part b = given("second", attend(second, further));
    const Vector largest =
        trace("largest[n]",
              "where(first_largest > second_largest, first_largest, second_largest)",
              Vector(xt::maximum(a.largest, b.largest)));
    const auto share = [&](const std::string& name, const Part& part) {
        const std::string sum = name + "_sum";
        const Vector factors = xt::exp(part.largest - largest);
        return trace(
            name + "_share[n]",
            "where(" + sum + " == 0, 0, " + sum + " * exp(" + name +
                "_largest - largest))",
            Vector(xt::where(xt::equal(part.sum, 0.0), 0.0, part.sum * factors)));
    };
    std::ignore = share("first", a);
    std::ignore = share("second", b);
    std::ignore = trace(
        "context[n, d_v]",
        "where((first_share + second_share)[:, None] == 0, 0, "
        "(first_share[:, None] * first_context + second_share[:, None] * "
        "second_context) / (first_share + second_share)[:, None])",
        attend(concat_columns({first, second}), concat_rows(values, further)).context);
    exercise.expect({"my_merged_context",
                     {{"first_context", a.context},
                      {"first_largest", a.largest},
                      {"first_sum", a.sum},
                      {"second_context", b.context},
                      {"second_largest", b.largest},
                      {"second_sum", b.sum}}},
                    run, "context", [&] { return my_merged_context(a, b); });
}

void check(Exercise& exercise)
{
    const Matrix values{{1, 0}, {0, 1}}, further{{2, 2}, {4, 0}};
    expect_merged(exercise, {{1, 5}}, values, {{3, 6}}, further);
    expect_merged(exercise, {{6, 3}}, values, {{5, 1}}, further);
    expect_merged(exercise, {{1000, 999}}, values, {{-1000, 1001}}, further);
    expect_merged(exercise, {{-infinity, -infinity}, {1, 2}, {-infinity, -infinity}},
                  values, {{2, 0}, {-infinity, -infinity}, {-infinity, -infinity}},
                  further);
    RandomNumbers numbers(18);
    expect_merged(exercise, numbers.matrix(3, 4, 4), numbers.matrix(4, 2),
                  numbers.matrix(3, 1, 4), numbers.matrix(1, 2));
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("18_flash_attention", argc, argv, check);
}
