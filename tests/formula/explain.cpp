#include "attn/formula/explain.hpp"

#include "lesson_run.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/core/error.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"

#include <algorithm>
#include <cmath>
#include <random>

using namespace attn;
using namespace attn::formula;

namespace {

Step step(std::string path, std::string formula, Array value)
{
    return {std::move(path), std::move(formula), {}, "", {}, std::move(value)};
}

/// What the formulas of these tests are about.
std::vector<Step> given()
{
    return {step("q", "", {{2, 3}, {1, 0, 2, -1, 0.5, 3}}),
            step("k", "", {{3, 3}, {2, 3, 1, 0, 1, -4, 1, 1, 1}}),
            step("v", "", {{3}, {2, 4, 4}}),
            step("w", "", {{3}, {-1, 0, 0.25}}),
            step("mask", "", {{2, 3}, {1, 1, 0, 0, 1, 1}, ElementType::boolean}),
            step("ids", "", {{2}, {2, 0}, ElementType::integer}),
            step("n", "", {{}, {7}}),
            step("forbidden", "", {{2}, {-infinity, -infinity}}),
            step("odd", "", {{3}, {NAN, 1, infinity}})};
}

/// The lines of a step with that formula, whose value is what evaluate() makes of it.
std::string lines(const std::string& formula, const std::string& index, const ExplainOptions& options = {})
{
    std::vector<Step> steps = given();
    const Lookup lookup = [&](std::string_view name) -> const Array* {
        const auto found = std::ranges::find(steps, name, &Step::path);
        return found == steps.end() ? nullptr : &found->value;
    };
    steps.push_back(step("x", formula, evaluate(formula, lookup).value));
    return explain_text({steps, {}}, "x" + index, options);
}

std::string explained(const std::string& formula, const std::string& index, const std::vector<std::string>& expected,
                      const ExplainOptions& options = {})
{
    std::string text = "x" + index + " = " + formula + "\n";
    for (const std::string& line : expected)
        text += "  " + line + "\n";
    const std::string found = lines(formula, index, options);
    return found == text ? "" : "found\n" + found + "expected\n" + text;
}

std::string complaint(const std::vector<Step>& steps, const std::string& cell)
{
    try {
        return "no complaint, but " + explain_text({steps, {}}, cell);
    } catch (const Error& error) {
        return error.what();
    }
}

// -------------------------------------------------------------------------------------------------------- read again

/// Two numbers that are the same but for rounding, which can be twice what verify allows.
bool agree(double left, double right, double error)
{
    if (std::isnan(left) || std::isnan(right) || std::isinf(left) || std::isinf(right))
        return left == right || (std::isnan(left) && std::isnan(right));
    return std::abs(left - right) <= 8 * error;
}

/// The only words among numbers.
const Array* constant(std::string_view name)
{
    static const Array nan{{}, {NAN}}, yes{{}, {1}, ElementType::boolean}, no{{}, {0}, ElementType::boolean};
    return name == "nan" ? &nan : name == "true" ? &yes : name == "false" ? &no : nullptr;
}

/// Why the printed arithmetic is wrong, where it is.
std::string wrong_numbers(const Explanation& explanation)
{
    const Array again = evaluate(explanation.numbers, constant).value;
    if (!again.shape.empty() || !agree(explanation.value, again.values[0], explanation.error))
        return explanation.cell + " = " + explanation.numbers + " is " + exact_text(again.values[0]) + ", not " +
               exact_text(explanation.value);
    for (const Explanation& part : explanation.parts)
        if (const std::string wrong = wrong_numbers(part); !wrong.empty())
            return explanation.cell + ": " + wrong;
    return {};
}

/// The same of the line with names, which is a formula unless a sum is cut short.
std::string wrong_names(const Recording& recording, const StepNames& names, const Step& explained,
                        const Explanation& explanation)
{
    if (explanation.names.find("other term") != std::string::npos)
        return {};
    const auto number = static_cast<std::size_t>(&explained - recording.steps.data());
    const Lookup lookup = [&](std::string_view name) {
        const std::optional<std::size_t> step = names.resolve(number, name);
        return step ? &recording.steps[*step].value : nullptr;
    };
    const double again = evaluate(explanation.names, lookup).value.values.at(0);
    return agree(explanation.value, again, explanation.error) ? "" : explanation.cell + " = " + explanation.names;
}

/// All offsets of a step, or so many of them, always the same.
std::vector<std::size_t> chosen_offsets(std::size_t size, std::size_t most)
{
    std::vector<std::size_t> offsets(size);
    for (std::size_t i = 0; i < size; ++i)
        offsets[i] = i;
    std::mt19937 random(7);
    for (std::size_t i = 0; size > most && i < most; ++i)
        std::swap(offsets[i], offsets[i + random() % (size - i)]);
    offsets.resize(std::min(size, most));
    return offsets;
}

} // namespace

TEST_CASE("a matrix product is explained as its terms, by name and by number", "[explain]")
{
    CHECK(explained("q @ k.T", "[0,2]",
                    {"= q[0,0]*k[2,0] + q[0,1]*k[2,1] + q[0,2]*k[2,2]", "= 1*1 + 0*1 + 2*1", "= 3"}) == "");
    CHECK(explained("q @ k.T", "[-1,1]",
                    {"= q[1,0]*k[1,0] + q[1,1]*k[1,1] + q[1,2]*k[1,2]", "= -1*0 + 0.5*1 + 3*(-4)", "= -11.5"}) !=
          ""); // the head has the index as it is
    CHECK_THAT(lines("q @ k.T", "[-1,1]"),
               ContainsSubstring("x[1,1] = q @ k.T\n") && ContainsSubstring("  = -1*0 + 0.5*1 + 3*(-4)\n  = -11.5\n"));
    CHECK(explained("v @ w", "", {"= v[0]*w[0] + v[1]*w[1] + v[2]*w[2]", "= 2*(-1) + 4*0 + 4*0.25", "= -1"}) == "");
    CHECK(explained("q[:, 0:1] @ k[0:1]", "[0,1]", {"= q[0,0]*k[0,1]", "= 1*3", "= 3"}) == "");
    CHECK(explained("q[:, 0:0] @ k[0:0]", "[0,1]", {"= 0"}) == "");
}

TEST_CASE("operators keep the tree of the formula, with no more parentheses than it needs", "[explain]")
{
    CHECK(explained("(n + 1) * (n - 2) / 3", "",
                    {"= (n + 1)*(n - 2) / 3", "= (7 + 1)*(7 - 2) / 3", "= 13.333333333333334"}) == "");
    CHECK(explained("n - (1 - n)", "", {"= 7 - (1 - 7)", "= 13"}) == "");
    CHECK(explained("-w ** 2", "[0]", {"= -w[0]**2", "= -(-1)**2", "= -1"}) == "");
    CHECK(explained("2 ** -w", "[0]", {"= 2**(-w[0])", "= 2**(-(-1))", "= 2"}) == "");
    CHECK(explained("w * w - w", "[0]", {"= w[0]*w[0] - w[0]", "= -1*(-1) - (-1)", "= 2"}) == "");
    CHECK(explained("-(n + 1) * 2", "", {"= -(n + 1)*2", "= -(7 + 1)*2", "= -16"}) == "");
    CHECK(explained("1 - 1e-5", "", {"= 1 - 1e-05", "= 0.99999"}) == "");
    CHECK(explained("2 * pi", "", {"= 2*3.141592653589793", "= 6.283185307179586"}) == "");
    CHECK(explained("n - inf", "", {"= 7 - inf", "= -inf"}) == "");
    CHECK(explained("q + v[:, None][0:2]", "[1,2]", {"= q[1,2] + v[1]", "= 3 + 4", "= 7"}) == "");
}

TEST_CASE("a boolean is explained as a word where it is the result, and as 1 or 0 in arithmetic", "[explain]")
{
    CHECK(explained("mask & (q > 0)", "[0,2]", {"= mask[0,2] & (q[0,2] > 0)", "= false & (2 > 0)", "= false"}) == "");
    CHECK(explained("mask | (q > 0)", "[0,2]", {"= mask[0,2] | (q[0,2] > 0)", "= false | (2 > 0)", "= true"}) == "");
    CHECK(explained("mask", "[0,1]", {"= mask[0,1]", "= true"}) == "");
    CHECK(explained("q * mask", "[1,0]", {"= q[1,0]*mask[1,0]", "= -1*0", "= -0"}) == "");
    CHECK(explained("arange(3) <= arange(2)[:, None]", "[0,1]", {"= 1 <= 0", "= false"}) == "");
    CHECK(explained("sum(mask)", "",
                    {"= mask[0,0] + mask[0,1] + mask[0,2] + mask[1,0] + mask[1,1] + mask[1,2]",
                     "= 1 + 1 + 0 + 0 + 1 + 1", "= 4"}) == "");
}

TEST_CASE("functions are written as they are called", "[explain]")
{
    for (const std::string name : {"exp", "log", "sqrt", "tanh", "sigmoid", "relu", "abs", "erf", "sin", "cos", "floor",
                                   "round", "float16", "float8_e4m3"})
        CHECK_THAT(lines(name + "(v + 1)", "[1]"),
                   ContainsSubstring("  = " + name + "(v[1] + 1)\n  = " + name + "(4 + 1)\n"));
    CHECK_THAT(lines("v / sqrt(k.shape[1])", "[1]"),
               ContainsSubstring("  = v[1] / sqrt(k.shape[1])\n  = 4 / sqrt(3)\n  = 2.309401076758503"));
}

TEST_CASE("sums are in order, and means are sums over their number", "[explain]")
{
    CHECK(explained("sum(q, axis=0)", "[2]", {"= q[0,2] + q[1,2]", "= 2 + 3", "= 5"}) == "");
    CHECK(explained("mean(q, axis=-1, keepdims=True)", "[1,0]",
                    {"= (q[1,0] + q[1,1] + q[1,2]) / 3", "= (-1 + 0.5 + 3) / 3", "= 0.8333333333333334"}) == "");
    CHECK(explained("mean(v) - 1", "",
                    {"= (v[0] + v[1] + v[2]) / 3 - 1", "= (2 + 4 + 4) / 3 - 1", "= 2.3333333333333335"}) == "");
    CHECK(explained("1 - sum(w)", "", {"= 1 - (w[0] + w[1] + w[2])", "= 1 - (-1 + 0 + 0.25)", "= 1.75"}) == "");
    CHECK(explained("mean(n)", "", {"= n / 1", "= 7 / 1", "= 7"}) == "");
    CHECK(explained("sum(v[0:0])", "", {"= 0"}) == "");
}

TEST_CASE("softmax is explained as exponentials over their sum, after the largest number is subtracted", "[explain]")
{
    CHECK(explained("softmax(v)", "[0]",
                    {"= exp(v[0] - v[1]) / (exp(v[0] - v[1]) + exp(v[1] - v[1]) + exp(v[2] - v[1]))",
                     "= exp(2 - 4) / (exp(2 - 4) + exp(4 - 4) + exp(4 - 4))", "= 0.06337893833303762",
                     "since v[1] is the largest of 3"}) == "");
    CHECK(explained("softmax(q, axis=0)", "[1,0]",
                    {"= exp(q[1,0] - q[0,0]) / (exp(q[0,0] - q[0,0]) + exp(q[1,0] - q[0,0]))",
                     "= exp(-1 - 1) / (exp(1 - 1) + exp(-1 - 1))", "= 0.11920292202211755",
                     "since q[0,0] is the largest of 2"}) == "");
    CHECK(explained("softmax(forbidden)", "[1]", {"= 0", "since forbidden[0], the largest, is -inf"}) == "");
    CHECK_THAT(lines("softmax(odd)", "[1]"),
               ContainsSubstring("= exp(1 - nan) / (exp(nan - nan) + exp(1 - nan) + exp(inf - nan))\n  = nan\n"
                                 "  since odd[0] is no number\n"));
}

TEST_CASE("where, max and min are explained as what was chosen, and why", "[explain]")
{
    CHECK(explained("where(mask, q, -inf)", "[0,1]", {"= q[0,1]", "= 0", "since mask[0,1] is true"}) == "");
    CHECK(explained("where(mask, q, -inf)", "[0,2]", {"= -inf", "since mask[0,2] is false"}) == "");
    CHECK(explained("where(q > n, q, k[0:2] / 2)", "[0,2]",
                    {"= k[0,2] / 2", "= 1 / 2", "= 0.5", "since q[0,2] > n is false"}) == "");
    CHECK(explained("maximum(q, 1)", "[0,2]", {"= q[0,2]", "= 2", "since q[0,2] is the largest of 2"}) == "");
    CHECK(explained("minimum(q, 1)", "[0,2]", {"= 1", "since 1 is the smallest of 2"}) == "");
    CHECK(explained("v - max(v)", "[0]", {"= v[0] - v[1]", "= 2 - 4", "= -2", "since v[1] is the largest of 3"}) == "");
    CHECK(explained("min(q, axis=1)", "[1]", {"= q[1,0]", "= -1", "since q[1,0] is the smallest of 3"}) == "");
    CHECK(explained("max(odd)", "", {"= odd[0]", "= nan", "since odd[0] is no number"}) == "");
    CHECK(explained("max(n)", "", {"= n", "= 7"}) == "");
    CHECK(explained("max(v[0:0])", "", {"= -inf"}) == "");
    CHECK(explained("k[ids]", "[1,2]", {"= k[0,2]", "= 1", "since ids[1] is 0"}) == "");
    CHECK(explained("k[2 - arange(3)]", "[0,2]", {"= k[2,2]", "= 1", "since 2 - 0 is 2"}) == "");
}

TEST_CASE("top_k is explained as a comparison with the last of the largest", "[explain]")
{
    CHECK(explained("top_k(q, 2)", "[1,1]",
                    {"= q[1,1] >= q[1,1]", "= 0.5 >= 0.5", "= true", "since q[1,1] is the 2nd largest of 3"}) == "");
    CHECK(explained("top_k(q, 2)", "[1,2]",
                    {"= q[1,2] >= q[1,1]", "= 3 >= 0.5", "= true", "since q[1,1] is the 2nd largest of 3"}) == "");
    CHECK(explained("top_k(v, 1)", "[2]", {"= v[2] > v[1]", "= 4 > 4", "= false", "since v[1] is the largest of 3"}) ==
          "");
    CHECK(explained("top_k(v, 3)", "[0]",
                    {"= v[0] >= v[0]", "= 2 >= 2", "= true", "since v[0] is the 3rd largest of 3"}) == "");
    CHECK(explained("where(top_k(v, 1), v, 0)", "[0]",
                    {"= 0", "since v[0] > v[1] is false", "since v[1] is the largest of 3"}) == "");
}

TEST_CASE("a function that only moves numbers is explained as the cell that it takes", "[explain]")
{
    CHECK(explained("concat(q, k, axis=0)", "[3,1]", {"= k[1,1]", "= 1"}) == "");
    CHECK(explained("concat(q, -k[0:2], axis=-1)", "[1,5]", {"= -k[1,2]", "= -(-4)", "= 4"}) == "");
    CHECK(explained("repeat(q, 2, axis=0)", "[3,1]", {"= q[1,1]", "= 0.5"}) == "");
    CHECK(explained("interleave(v, w)", "[5]", {"= w[2]", "= 0.25"}) == "");
    CHECK(explained("reshape(q, 3, 2)", "[2,0]", {"= q[1,1]", "= 0.5"}) == "");
    CHECK(explained("permute(reshape(q, 1, 2, 3), 2, 0, 1)", "[2,0,1]", {"= q[1,2]", "= 3"}) == "");
    CHECK(explained("q.T", "[2,1]", {"= q[1,2]", "= 3"}) == "");
    CHECK(explained("q[..., ::-2]", "[0,0]", {"= q[0,2]", "= 2"}) == "");
    CHECK(explained("k[-1][1:]", "[1]", {"= k[2,2]", "= 1"}) == "");
    CHECK(explained("diag(v)", "[1,1]", {"= v[1]", "= 4"}) == "");
    CHECK(explained("diag(v)", "[1,0]", {"= 0", "since diag(v) is 0 off the diagonal"}) == "");
    CHECK(explained("pad(v, 1, 0, axis=0)", "[0]", {"= 0", "since pad(v, 1, 0, axis=0) is 0 there"}) == "");
    CHECK(explained("outer(v, w)", "[1,2]", {"= v[1]*w[2]", "= 4*0.25", "= 1"}) == "");
    CHECK(explained("arange(5)", "[3]", {"= 3"}) == "");
}

TEST_CASE("a long sum is explained with its largest terms, and the rest as one number", "[explain]")
{
    CHECK(explained("v @ w", "", {"= v[0]*w[0] + v[2]*w[2] + (1 other term)", "= 2*(-1) + 4*0.25 + 0", "= -1"},
                    {.terms = 2}) == "");
    CHECK(explained("sum(q)", "", {"= q[1,2] + (5 other terms)", "= 3 + 2.5", "= 5.5"}, {.terms = 1}) == "");
    CHECK(explained("1 - sum(w)", "", {"= 1 - (w[0] + (2 other terms))", "= 1 - (-1 + 0.25)", "= 1.75"},
                    {.terms = 1}) == "");
    CHECK(explained("sum(odd)", "", {"= odd[0] + odd[2] + (1 other term)", "= nan + inf + 1", "= nan"}, {.terms = 2}) ==
          "");
}

TEST_CASE("a sum within a sum's term is written by its name, and explained after it", "[explain]")
{
    CHECK(explained("sum((v - mean(v)) ** 2) / 3", "",
                    {"= ((v[0] - mean(v))**2 + (v[1] - mean(v))**2 + (v[2] - mean(v))**2) / 3",
                     "= ((2 - 3.3333333333333335)**2 + (4 - 3.3333333333333335)**2 + (4 - 3.3333333333333335)**2) / 3",
                     "= 0.8888888888888888", "where mean(v)", "  = (v[0] + v[1] + v[2]) / 3", "  = (2 + 4 + 4) / 3",
                     "  = 3.3333333333333335"}) == "");
    CHECK(explained("relu(q @ k.T) @ v", "[1]",
                    {"= relu((q @ k.T)[1,0])*v[0] + relu((q @ k.T)[1,1])*v[1] + relu((q @ k.T)[1,2])*v[2]",
                     "= relu(2.5)*2 + relu(-11.5)*4 + relu(2.5)*4", "= 15", "where (q @ k.T)[1,0]",
                     "  = q[1,0]*k[0,0] + q[1,1]*k[0,1] + q[1,2]*k[0,2]", "  = -1*2 + 0.5*3 + 3*1", "  = 2.5"}) == "");
    CHECK_THAT(lines("sum(softmax(v) * w)", ""), ContainsSubstring("softmax(v)[0]*w[0] + softmax(v)[1]*w[1]") &&
                                                     ContainsSubstring("  where softmax(v)[0]\n    = exp("));
}

TEST_CASE("with a depth, operands that are steps follow", "[explain]")
{
    std::vector<Step> steps = given();
    steps.push_back(step("a.s", "v * 2", {{3}, {4, 8, 8}}));
    steps.push_back(step("a.t", "s + s[2]", {{3}, {12, 16, 16}}));
    steps.push_back(step("a.u", "t - s", {{3}, {8, 8, 8}}));
    const std::string flat = "a.u[0] = t - s\n  = t[0] - s[0]\n  = 12 - 4\n  = 8\n";
    const std::string t = "  where a.t[0] = s + s[2]\n    = s[0] + s[2]\n    = 4 + 8\n    = 12\n";
    const std::string s0 = "where a.s[0] = v * 2\n", s2 = "where a.s[2] = v * 2\n";
    CHECK(explain_text({steps, {}}, "a.u[0]") == flat);
    CHECK(explain_text({steps, {}}, "a.u[0]", {.depth = 1}) ==
          flat + t + "  " + s0 + "    = v[0]*2\n    = 2*2\n    = 4\n");
    CHECK(explain_text({steps, {}}, "a.u[0]", {.depth = 9}) == flat + t + "    " + s0 +
                                                                   "      = v[0]*2\n      = 2*2\n      = 4\n    " + s2 +
                                                                   "      = v[2]*2\n      = 4*2\n      = 8\n");
}

TEST_CASE("a row is one line per number", "[explain]")
{
    CHECK(lines("q @ k.T", "[0]") == "x[0] = q @ k.T\n"
                                     "  x[0,0] = 1*2 + 0*3 + 2*1 = 4\n"
                                     "  x[0,1] = 1*0 + 0*1 + 2*(-4) = -8\n"
                                     "  x[0,2] = 1*1 + 0*1 + 2*1 = 3\n");
    CHECK(lines("where(mask, q, -inf)", "[:,2]") == "x[:,2] = where(mask, q, -inf)\n"
                                                    "  x[0,2] = -inf (since mask[0,2] is false)\n"
                                                    "  x[1,2] = q[1,2] = 3 (since mask[1,2] is true)\n");
    CHECK(explain_text({given(), {}}, "v[1:]") == "v[1:], an input: it has no formula\n  v[1] = 4\n  v[2] = 4\n");
}

TEST_CASE("an input has its number", "[explain]")
{
    CHECK(explain_text({given(), {}}, "q[1,1]") == "q[1,1] = 0.5\n  an input: it has no formula\n");
    CHECK(explain_text({given(), {}}, "n") == "n = 7\n  an input: it has no formula\n");
    CHECK(explain_text({given(), {}}, "mask[0,0]") == "mask[0,0] = true\n  an input: it has no formula\n");
}

TEST_CASE("numbers are shortened where that is asked", "[explain]")
{
    CHECK(explained("v[1:] / 3", "[0]", {"= v[1] / 3", "= 4 / 3", "= 1.33"}, {.digits = 3}) == "");
    CHECK(explained("12345.678 * n", "", {"= 12000*n", "= 12000*7", "= 86000"}, {.digits = 2}) == "");
}

TEST_CASE("a recorded number that does not follow from its formula is reported", "[explain]")
{
    const std::vector<Step> steps{step("v", "", {{2}, {1, 2}}), step("s", "sum(v)", {{}, {5}})};
    CHECK(explain_text({steps, {}}, "s") == "s = sum(v)\n  = v[0] + v[1]\n  = 1 + 2\n  = 3\n  but the trace has 5\n");
}

TEST_CASE("a name means the earlier step of the innermost scope", "[explain]")
{
    const std::vector<Step> steps{step("x", "", {{}, {1}}), step("a.x", "", {{}, {2}}), step("a.b.y", "x", {{}, {2}}),
                                  step("b.x", "x", {{}, {1}})};
    CHECK(explain_text({steps, {}}, "a.b.y") == "a.b.y = x\n  = 2\n");
    CHECK(explain_text({steps, {}}, "b.x") == "b.x = x\n  = 1\n");
}

TEST_CASE("the other name of a step explains that step", "[explain]")
{
    std::vector<Step> steps = given();
    steps.push_back(step("residual1", "v * 2", {{3}, {4, 8, 8}}));
    steps.push_back(step("norm1.y", "x + 1", {{3}, {5, 9, 9}}));
    const Recording recording{steps, {{"norm1.x", "residual1"}}};
    CHECK(explain_text(recording, "norm1.x[1]") == explain_text(recording, "residual1[1]"));
    CHECK(explain_text(recording, "norm1.x[0:2]") == explain_text(recording, "residual1[0:2]"));
    CHECK(explain_text(recording, "norm1.y[0]", {.depth = 1}) ==
          "norm1.y[0] = x + 1\n  = x[0] + 1\n  = 4 + 1\n  = 5\n"
          "  where residual1[0] = v * 2\n    = v[0]*2\n    = 2*2\n    = 4\n");
}

TEST_CASE("a wrong question is refused, with steps of similar names", "[explain]")
{
    std::vector<Step> steps = given();
    steps.push_back(step("head.0.scores", "q @ k.T", {{2, 3}, {4, -8, 3, 2.5, -11.5, 2.5}}));
    CHECK(complaint(steps, "head.0.scors[0,0]") == "no step is called head.0.scors; did you mean head.0.scores?");
    CHECK(complaint(steps, "scores") == "no step is called scores; did you mean head.0.scores?");
    CHECK(complaint(steps, "nothing") == "no step is called nothing");
    CHECK(complaint(steps, "") == "no step is called ; did you mean q or k or v?");
    for (const std::string cell : {"q[2,0]", "q[0,0,0]", "q[", "q[0]+1", "q[x]", "q[0.5]", "q[ids]", "q[arange(2)]",
                                   "q[0,0].T", "q[0,0] + q[0,0]", "q]"}) {
        CAPTURE(cell);
        CHECK_THAT(complaint(steps, cell), ContainsSubstring("is no cell of q, which has the shape (2, 3): write "
                                                             "q[0,0], or q[0] for a row") ||
                                               ContainsSubstring("no step is called q]"));
    }
    CHECK(complaint(steps, "n[0]") == "n[0] is no cell of n, a single number: write n");
    steps.push_back(step("large", "", {{40, 40}, std::vector<double>(1600)}));
    CHECK_THAT(complaint(steps, "large"), ContainsSubstring("1600 numbers, more than 1000"));
}

TEST_CASE("a formula that can't be computed is an error in one line", "[explain]")
{
    const auto complains = [](const std::string& formula, Array value = {{}, {0}}) {
        std::vector<Step> steps = given();
        steps.push_back(step("x", formula, std::move(value)));
        const Shape index(steps.back().value.rank(), 0);
        const std::string found = complaint({steps}, index.empty() ? "x" : "x[0]");
        CHECK_THAT(found, ContainsSubstring("can't be explained: "));
        CHECK(lines_in(found) == 0);
        return found;
    };
    CHECK_THAT(complains("y + 1"), ContainsSubstring("no earlier step is called y"));
    CHECK_THAT(complains("x"), ContainsSubstring("no earlier step is called x"));
    CHECK_THAT(complains("v"), ContainsSubstring("has the shape (3,), and the step ()"));
    CHECK_THAT(complains("q @ v @ q @ q"), ContainsSubstring("don't fit"));
    CHECK_THAT(complains("k[odd]", {{1}, {0}}), ContainsSubstring("has the shape (3, 3)"));
    CHECK_THAT(complains("k[odd][:, 0][0:1]", {{1}, {0}}), ContainsSubstring("there is no row nan"));
    CHECK_THAT(complains("sum(arange(1e9))"), ContainsSubstring("takes more numbers than can be explained"));
    CHECK_THAT(complains("v[w][0] + v[1e300]"), ContainsSubstring("expected a whole number"));
    for (const std::string formula : {"(",
                                      "sum(",
                                      "sum(v, axis=9)",
                                      "softmax(n)",
                                      "where(v)",
                                      "concat()",
                                      "concat(v, q, axis=0)",
                                      "repeat(v, 2)",
                                      "repeat(v, -1, axis=0)",
                                      "repeat(v, 1e15, axis=0) @ v",
                                      "reshape(v, 7)",
                                      "reshape(v, 4294967296, 4294967296)",
                                      "permute(q, 0)",
                                      "permute(q, 0, 0)",
                                      "diag(q)",
                                      "outer(q, v)",
                                      "interleave(v, q)",
                                      "q.shape[5]",
                                      "v[5]",
                                      "v[::0]",
                                      "n[0]",
                                      "n @ n",
                                      "mask & v",
                                      "nonsense(v)",
                                      "exp(v, w)",
                                      "exp()",
                                      "v[0, 0]",
                                      "v[..., ...]",
                                      "n[ids]",
                                      "sum(v, keepdims=v)",
                                      "arange(v)",
                                      "arange(-1)",
                                      "q + v[0:2]",
                                      "where(mask, v[0:2], q)"})
        complains(formula);

    std::string deep = "v";
    for (int i = 0; i < 90; ++i)
        deep = "softmax(" + deep + ")";
    complains("1 + " + deep);
    complains("(" + std::string(5000, '(') + "v");
    std::string product = "k";
    for (int i = 0; i < 60; ++i)
        product += " @ k";
    std::vector<Step> steps = given();
    steps.push_back(step("x", product, {{3, 3}, std::vector<double>(9)}));
    CHECK(explain_text({steps, {}}, "x[0,0]").size() < 100'000);
}

TEST_CASE("explaining one number computes only what it follows from, not its whole tensor", "[explain]")
{
    const std::vector<Step> steps{step("x", "(arange(1e6)[:, None] * arange(1e6))[3, 4]", {{}, {12}})};
    CHECK_THROWS_AS(evaluate(steps[0].formula, constant), Error);
    CHECK(explain_text({steps, {}}, "x") == "x = (arange(1e6)[:, None] * arange(1e6))[3, 4]\n  = 3*4\n  = 12\n");
}

TEST_CASE("a value that does not have its shape is an error", "[explain]")
{
    CHECK_THAT(complaint({step("x", "", {{2, 2}, {1}}), step("y", "x[0, 0]", {{}, {1}})}, "y"),
               ContainsSubstring("doesn't have as many numbers"));
    CHECK_THAT(complaint({step("x", "", {{2, 2}, {1}})}, "x[1,1]"), ContainsSubstring("x"));
}

namespace {

/// A number as an explanation writes it.
std::string written(const Array& value, std::size_t offset)
{
    const double number = value.values[offset];
    if (value.type == ElementType::boolean)
        return number != 0 ? "true" : "false";
    return std::isnan(number) ? "nan" : exact_text(number);
}

/// Whether a step was computed in float32, while its explanation computes in double.
bool is_in_float32(const Step& step)
{
    return std::ranges::find(step.options, std::pair<std::string, std::string>("type", "float32")) !=
           step.options.end();
}

bool is_near(double found, double expected)
{
    return found == expected || std::abs(found - expected) <= 4e-6 * std::max(1.0, std::abs(expected));
}

} // namespace

TEST_CASE("the arithmetic of every step of every lesson, read again, gives the recorded number",
          "[explain][lessons][slow]")
{
    for (const std::string& topic : lesson_topics()) {
        CAPTURE(topic);
        const Recording& recording = lesson_recording(topic);
        const std::vector<Step>& steps = recording.steps;
        const StepNames names_of_steps(recording);
        const bool is_large = steps.size() > 400;
        std::size_t explained = 0;
        for (const Step& step : steps) {
            if (step.formula.empty())
                continue;
            std::size_t names = 0;
            for (const std::size_t offset : chosen_offsets(step.value.size(), is_large ? 10 : 200)) {
                const Explanation explanation = explain(recording, step, offset);
                ++explained;
                REQUIRE(wrong_numbers(explanation) == "");
                if (is_in_float32(step))
                    REQUIRE(is_near(explanation.value, step.value.values[offset]));
                else
                    REQUIRE(explanation.result == written(step.value, offset));
                if (!is_large && step.value.size() < 1000 && ++names < 10)
                    REQUIRE(wrong_names(recording, names_of_steps, step, explanation) == "");
            }
        }
        CHECK(explained > 40);
    }
}

TEST_CASE("the arithmetic of rows that are added up names the rows", "[explain]")
{
    CHECK(lines("scatter_add(q, ids, 4)", "[0,1]") == "x[0,1] = scatter_add(q, ids, 4)\n  = q[1,1]\n  = 0.5\n");
    CHECK(lines("scatter_add(q, 0 * ids, 2)", "[0,2]") ==
          "x[0,2] = scatter_add(q, 0 * ids, 2)\n  = q[0,2] + q[1,2]\n  = 2 + 3\n  = 5\n");
    CHECK_THAT(lines("scatter_add(q, ids, 4)", "[1,1]"), ContainsSubstring("is 0 there"));
}
