#include "attn/formula/verify.hpp"

#include "test.hpp"

#include <cmath>
#include <limits>

using namespace attn;
using namespace attn::formula;

namespace {

using Verdict = StepCheck::Verdict;

Step checked_step(std::string path, std::string formula, Array value)
{
    return {std::move(path), std::move(formula), {}, "", {}, std::move(value)};
}

Verification verified(std::vector<Step> steps) { return verify({std::move(steps), {}}); }

Verdict verdict_of_last(const std::vector<Step>& steps) { return verified(steps).checks.back().verdict; }

const Step scores = checked_step("scores", "", {{3}, {2, 4, 4}});

/// softmax(2, 4, 4), as a published example prints it to eight digits, and in full
Array weights() { return {{3}, {0.06337893833303762, 0.46831053083348124, 0.46831053083348124}}; }

} // namespace

TEST_CASE("a step that follows from its formula agrees", "[verify]")
{
    const Verification verification = verified({scores, checked_step("weights", "softmax(scores)", weights())});
    CHECK(verification.passed());
    CHECK(verification.inputs() == 1);
    CHECK(verification.recomputed() == 1);
    CHECK(verification.failures() == 0);
}

TEST_CASE("sums that overflow agree in any order, and what is masked beside them is still exact", "[verify][overflow]")
{
    const Step x = checked_step("x", "", {{3}, {1e308, 1e308, -1e308}}), v = checked_step("v", "", {{3}, {10, 10, 10}});
    for (const double recorded : {1e308, infinity, -infinity, not_a_number}) {
        CHECK(verdict_of_last({x, checked_step("s", "sum(x)", {{}, {recorded}})}) == Verdict::agrees);
        CHECK(verdict_of_last({x, v, checked_step("s", "x @ v", {{}, {recorded}})}) == Verdict::agrees);
        CHECK(verdict_of_last({x, checked_step("s", "1 / sum(x)", {{}, {recorded}})}) == Verdict::agrees);
    }
    // Sums of infinities, quotients by zero and exponentials do not depend on any order.
    const Step masked = checked_step("m", "", {{2}, {1, -infinity}}), zero = checked_step("z", "", {{}, {0}});
    CHECK(verdict_of_last({masked, checked_step("s", "sum(m)", {{}, {-infinity}})}) == Verdict::agrees);
    CHECK(verdict_of_last({masked, checked_step("s", "sum(m)", {{}, {1}})}) == Verdict::differs);
    CHECK(verdict_of_last({masked, checked_step("s", "m / sqrt(3)", {{2}, {1 / std::sqrt(3), 5}})}) ==
          Verdict::differs);
    CHECK(verdict_of_last({zero, checked_step("s", "1 / z", {{}, {infinity}})}) == Verdict::agrees);
    CHECK(verdict_of_last({zero, checked_step("s", "1 / z", {{}, {7}})}) == Verdict::differs);
    CHECK(verdict_of_last({v, checked_step("s", "(-v) ** 0.5", {{3}, {1, 1, 1}})}) == Verdict::differs);
    CHECK(verdict_of_last({v, checked_step("s", "exp(v * 1000)", {{3}, {infinity, infinity, 7}})}) == Verdict::differs);
}

TEST_CASE("sums along an axis without numbers are zeros", "[verify][hostile]")
{
    const Step none = checked_step("x", "", {{3, 0}, {}});
    CHECK(verdict_of_last({none, checked_step("s", "sum(x, axis=1)", {{3}, {0, 0, 0}})}) == Verdict::agrees);
    CHECK(verdict_of_last({none, checked_step("s", "max(x, axis=1)", {{3}, {-infinity, -infinity, -infinity}})}) ==
          Verdict::agrees);
}

TEST_CASE("a number that is off by a millionth is found, with its place", "[verify]")
{
    Array wrong = weights();
    wrong.values[1] += 1e-6;
    const StepCheck check = verified({scores, checked_step("weights", "softmax(scores)", wrong)}).checks.back();
    CHECK(check.verdict == Verdict::differs);
    CHECK(check.worst_index == Shape{1});
    CHECK_THAT(check.message, ContainsSubstring("weights[1] is 0.468311530"));
    CHECK_THAT(check.message, ContainsSubstring("softmax(scores) gives 0.468310530"));
}

TEST_CASE("the worst of several wrong numbers is named", "[verify]")
{
    Array wrong = weights();
    wrong.values[0] += 1e-6;
    wrong.values[2] += 1e-3;
    CHECK(verified({scores, checked_step("weights", "softmax(scores)", wrong)}).checks.back().worst_index == Shape{2});
}

TEST_CASE("a sum in another order agrees, even where it cancels", "[verify]")
{
    const Step terms = checked_step("terms", "", {{4}, {1e16, 1, -1e16, 1}});
    CHECK(verdict_of_last({terms, checked_step("total", "sum(terms)", {{}, {2}})}) == Verdict::agrees);
    CHECK(verdict_of_last({terms, checked_step("total", "sum(terms)", {{}, {0}})}) == Verdict::agrees);
    CHECK(verdict_of_last({terms, checked_step("total", "sum(terms)", {{}, {1000}})}) == Verdict::differs);
}

TEST_CASE("another shape is wrong even with the same numbers", "[verify]")
{
    CHECK(verdict_of_last({scores, checked_step("copy", "scores", {{3, 1}, {2, 4, 4}})}) == Verdict::wrong_shape);
}

TEST_CASE("infinities agree by sign, and NaN with NaN only", "[verify]")
{
    const Step given = checked_step("x", "", {{3}, {infinity, -infinity, NAN}});
    CHECK(verdict_of_last({given, checked_step("y", "x", {{3}, {infinity, -infinity, NAN}})}) == Verdict::agrees);
    CHECK(verdict_of_last({given, checked_step("y", "x", {{3}, {-infinity, -infinity, NAN}})}) == Verdict::differs);
    CHECK(verdict_of_last({given, checked_step("y", "x", {{3}, {infinity, -infinity, 0}})}) == Verdict::differs);
    CHECK(verdict_of_last({given, checked_step("y", "x * 0", {{3}, {0, 0, 0}})}) == Verdict::differs);
    CHECK(verdict_of_last({checked_step("x", "", {{1}, {1}}), checked_step("y", "x", {{1}, {NAN}})}) ==
          Verdict::differs);
    CHECK(verdict_of_last({checked_step("x", "", {{1}, {1}}), checked_step("y", "x", {{1}, {infinity}})}) ==
          Verdict::differs);
}

TEST_CASE("a name means the earlier step of the innermost scope that has one", "[verify]")
{
    const auto number = [](double value) { return Array{{}, {value}}; };
    const std::vector<Step> outer{checked_step("x", "", number(1)), checked_step("a.x", "", number(2))};
    const auto gives = [&](const char* path, const char* formula, double value) {
        std::vector<Step> steps = outer;
        steps.push_back(checked_step(path, formula, number(value)));
        return verdict_of_last(steps) == Verdict::agrees;
    };
    CHECK(gives("y", "x", 1));
    CHECK(gives("a.y", "x", 2));
    CHECK(gives("a.b.0.y", "x", 2));
    CHECK(gives("b.y", "x", 1));
    CHECK(gives("b.y", "a.x", 2));
    CHECK(gives("b.x", "x", 1)); // its own name means the one outside
    CHECK(gives("ab.y", "x", 1));
}

TEST_CASE("a name that only a later step has means nothing", "[verify]")
{
    const Verification verification = verified({checked_step("y", "x", {{}, {1}}), checked_step("x", "", {{}, {1}})});
    CHECK(verification.checks.front().verdict == Verdict::unusable);
    CHECK(verification.recomputed() == 0);
    CHECK_FALSE(verification.passed());
    CHECK_THAT(verification.checks.front().message, ContainsSubstring("y can't be recomputed"));
}

TEST_CASE("numbers computed in float32 agree under its roundoff, and not under double's", "[verify]")
{
    Array rounded = weights();
    for (double& value : rounded.values)
        value = static_cast<float>(value);
    const std::vector<Step> steps{scores, checked_step("weights", "softmax(scores)", rounded)};
    CHECK(verify({steps, {}}, 0x1p-24).passed());
    CHECK_FALSE(verified(steps).passed());
}

TEST_CASE("below the smallest normal number of a type, each product can be off by the spacing there", "[verify]")
{
    // Rounded to multiples of 2^-149, as float32 has them; and the same in double, of 2^-1074.
    const auto is_right = [](double size, double spacing, const StepOptions& options, double off) {
        const std::vector<double> x{1.3, 1.7, 1.2}, y{1.6, 1.1, 1.9};
        double sum = 0;
        for (std::size_t i = 0; i < x.size(); ++i)
            sum += std::nearbyint(x[i] * size * y[i] / spacing) * spacing;
        Array left{{3}, x};
        for (double& value : left.values)
            value *= size;
        const Step dot{"dot", "x @ y", {}, "attention", options, {{}, {sum + off * spacing}}};
        return verdict_of_last({checked_step("x", "", left), checked_step("y", "", {{3}, y}), dot}) == Verdict::agrees;
    };
    const StepOptions as_float32{{"type", "float32"}};
    for (const double times : {0.3, 0.7, 1.4, 40.6}) {
        CAPTURE(times);
        CHECK(is_right(times * 0x1p-149, 0x1p-149, as_float32, 0));
        CHECK(is_right(times * 0x1p-149, 0x1p-149, as_float32, 1));
        CHECK(is_right(times * 0x1p-149, 0x1p-149, as_float32, -2));
        CHECK_FALSE(is_right(times * 0x1p-149, 0x1p-149, as_float32, 100));
        CHECK(is_right(times * 0x1p-1074, 0x1p-1074, {}, 1));
        CHECK_FALSE(is_right(times * 0x1p-149, 0x1p-149, {}, 100));
    }
}

TEST_CASE("a program can add the terms of a sum to another one, one by one", "[verify]")
{
    // Each term is less than half of what float32 can tell from 1, so that the sum so far stays 1.
    constexpr std::size_t m = 128;
    const Step before = checked_step("before", "", {{}, {1}});
    const Step a = checked_step("a", "", {{m}, std::vector<double>(m, 0.75 * 0x1p-24)});
    const Step ones = checked_step("ones", "", {{m}, std::vector<double>(m, 1)});
    const auto passes = [&](const std::string& formula, double recorded) {
        return verify({{before, a, ones, checked_step("sum", formula, {{}, {recorded}})}, {}}, 0x1p-24).passed();
    };
    for (const char* formula : {"before + a @ ones", "sum(a) + before", "before + (sum(a) + 0)"}) {
        CAPTURE(formula);
        CHECK(passes(formula, 1 + 0.75 * 0x1p-24 * m));
        CHECK(passes(formula, 1));
        CHECK_FALSE(passes(formula, 1 - 0x1p-12));
    }
}
