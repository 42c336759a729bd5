#include "attn/formula/gradient.hpp"

#include "generators.hpp"
#include "reference/layers/examples.hpp"
#include "trace_of.hpp"
#include "test.hpp"

#include "attn/core/error.hpp"
#include "attn/core/recorder.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/layers/cache.hpp"
#include "attn/reference/layers/multi_head.hpp"

#include <algorithm>
#include <cmath>
#include <map>

using namespace attn;
using namespace attn::formula;
using namespace attn::test;

namespace {

/// The gradient of what one formula of x gives.
Array gradient_of(const std::string& formula, const Array& x, std::optional<Array> seed = {})
{
    const Recording result =
        gradients(trace_of({input("x", x)}, {{"y", formula}}), {.of = "y", .seed = std::move(seed)});
    return std::ranges::find(result.steps, "grad.x", &Step::path)->value;
}

const Step& named(const Recording& recording, const std::string& path)
{
    return recording.steps.at(StepNames(recording).find(path).value());
}

bool has(const Recording& recording, const std::string& path) { return StepNames(recording).find(path).has_value(); }

Step checked(std::string path, std::string formula, Array value)
{
    return {std::move(path), std::move(formula), {}, "", {}, std::move(value)};
}

Array drawn(Numbers& numbers, const Shape& shape)
{
    Array array{shape, {}};
    for (std::size_t i = 0; i < element_count(shape); ++i)
        array.values.push_back(numbers.matrix(1, 1)(0, 0));
    return array;
}

} // namespace

TEST_CASE("the gradient of every function of the language is that of central differences", "[formula][gradient]")
{
    Numbers numbers(31);
    const Array x = drawn(numbers, {3, 4}), w = drawn(numbers, {4, 2}), v = drawn(numbers, {4}),
                c = drawn(numbers, {2, 3, 4}), row = drawn(numbers, {1, 4});
    const Array ids{{3}, {2, 0, 2}, ElementType::integer},
        mask{{3, 4}, {1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 0, 1}, ElementType::boolean};
    const std::vector<std::string> formulas{
        "x + v",
        "x - row",
        "v - x",
        "x * row",
        "x * x",
        "x / (v + 3)",
        "x % (v + 3)",
        "(4 * x) % 1.5 + (4 * x) // 1.5",
        "(x + 4) ** 2",
        "(x + 4) ** 0.5",
        "(x + 4) ** (v + 2)",
        "2 ** x",
        "-x",
        "exp(x)",
        "log(x + 4)",
        "sqrt(x + 4)",
        "tanh(x)",
        "sigmoid(x)",
        "relu(x)",
        "abs(x)",
        "erf(x)",
        "sin(x)",
        "cos(x)",
        "outer(v, row[0])",
        "where(mask, x, v)",
        "maximum(x, v)",
        "minimum(x * v, 0.5)",
        "where(x < v, x, 2 * v)",
        "x.T @ x",
        "x @ w",
        "v @ w",
        "x @ v",
        "v @ v",
        "c @ w",
        "c @ v",
        "c @ x.T",
        "x @ permute(c, 0, 2, 1)",
        "v @ permute(c, 0, 2, 1)",
        "v @ w * (c @ w)",
        "sum(x)",
        "sum(c, axis=1)",
        "sum(x, axis=-1, keepdims=True) * x",
        "mean(x)",
        "mean(x, axis=0)",
        "max(x, axis=1)",
        "max(x)",
        "min(c, axis=0, keepdims=True)",
        "softmax(x)",
        "softmax(c, axis=1)",
        "softmax(where(mask, x, -inf))",
        "x.T",
        "permute(c, 1, 2, 0)",
        "c.transpose(1, 2, 0).sum(0)",
        "reshape(x, 2, 6)",
        "concat(x, row, axis=0)",
        "concat(x, 2 * x, x, axis=1)",
        "repeat(x, 3, axis=1)",
        "repeat(v, 2, axis=0)",
        "interleave(x, 2 * x)",
        "diag(v)",
        "pad(x, 1, 2, axis=0)",
        "scatter_add(x, ids, 4)",
        "x[ids]",
        "c[:, 1]",
        "x[1]",
        "x[1, 2]",
        "x[:, 1:3]",
        "x[..., ::2]",
        "x[:, 1::2]",
        "x[::-1]",
        "x[:, 3:0:-2]",
        "x[:, None]",
        "x[None, 1:, None, ::3]",
        "c[..., 0]",
        "c[-1, :, 1:]",
        "floor(x) * x",
        "round(x) * x",
        "where(top_k(x, 2), x, 0)",
        "x * top_k(x + w[0, 0], 1, axis=0)",
        "x * arange(4)",
        "x / x.shape[1]",
        "(x - mean(x, axis=1)[:, None]) / sqrt(mean((x - mean(x, axis=1)[:, None]) ** 2, axis=1)[:, None] + 0.1)"};
    for (const std::string& formula : formulas) {
        CAPTURE(formula);
        Recording forward = trace_of({input("x", x), input("w", w), input("v", v), input("c", c), input("row", row),
                                      input("ids", ids), input("mask", mask)},
                                     {{"y", formula}});
        Recording result = gradients(forward, {.of = "y", .seed = drawn(numbers, forward.steps.back().value.shape)});
        const std::vector<GradientCheck> checks = check_gradients(result);
        CHECK(!checks.empty());
        for (const GradientCheck& check : checks) {
            CAPTURE(check.input, check.by_gradient, check.by_differences, check.error);
            CHECK(check.agrees());
        }
        CHECK(verify(result).passed());
        // A gradient that is a little wrong is found.
        const std::string wrong = "grad." + checks.front().input;
        for (Step& step : result.steps)
            if (step.path == wrong)
                for (double& value : step.value.values)
                    value = value * 1.0001 + 1e-4;
        CHECK(!check_gradients(result).front().agrees());
    }
}

TEST_CASE("gradients by hand: softmax, a product, a layer's bias", "[formula][gradient]")
{
    // y = (1/3, 2/3): diag(y) - y y^T has 2/9 and -2/9.
    const Array scores{{2}, {0, std::log(2)}}, first{{2}, {1, 0}};
    const Array by_scores = gradient_of("softmax(x)", scores, first);
    CHECK(std::abs(by_scores.values[0] - 2.0 / 9) <= 1e-15);
    CHECK(std::abs(by_scores.values[1] + 2.0 / 9) <= 1e-15);
    const Recording result =
        gradients(trace_of({input("x", {{2, 2}, {1, 2, 3, 4}}), input("w", {{2, 1}, {5, 6}}), input("b", {{1}, {7}})},
                           {{"output", "x @ w + b"}}));
    CHECK(named(result, "grad.x").formula == "grad.output @ w.T");
    CHECK(named(result, "grad.x").value.values == std::vector<double>{5, 6, 5, 6});
    CHECK(named(result, "grad.w").formula == "x.T @ grad.output");
    CHECK(named(result, "grad.w").value.values == std::vector<double>{4, 6});
    CHECK(named(result, "grad.b").formula == "sum(grad.output, axis=0)");
    CHECK(named(result, "grad.b").value.values == std::vector<double>{2});
}

TEST_CASE("at corners the gradients are PyTorch's", "[formula][gradient]")
{
    const Array x{{3}, {-1, 0, 2}};
    CHECK(gradient_of("relu(x)", x).values == std::vector<double>{0, 0, 1});
    CHECK(gradient_of("abs(x)", x).values == std::vector<double>{-1, 0, 1});
    CHECK(gradient_of("max(x)", {{3}, {2, 1, 2}}).values == std::vector<double>{0.5, 0, 0.5});
    CHECK(gradient_of("maximum(x, 0)", x).values == std::vector<double>{0, 0.5, 1});
    CHECK(gradient_of("minimum(x, 0)", x).values == std::vector<double>{1, 0.5, 0});
    const Array forbidden{{2, 2}, {-INFINITY, -INFINITY, 1, -INFINITY}};
    CHECK(gradient_of("softmax(x)", forbidden, Array{{2, 2}, {1, 2, 3, 4}}).values == std::vector<double>{0, 0, 0, 0});
    CHECK(gradient_of("where(x < 1, x, -inf)", x).values == std::vector<double>{1, 1, 0});
}

TEST_CASE("what several steps use has a contribution from each, and their sum", "[formula][gradient]")
{
    const Recording result =
        gradients(trace_of({input("x", {{2}, {1, 2}})}, {{"a", "2 * x"}, {"b", "x * x"}, {"output", "a + b"}}));
    CHECK(named(result, "grad.x.from.a").value.values == std::vector<double>{2, 2});
    CHECK(named(result, "grad.x.from.b").formula == "grad.b * x + grad.b * x");
    CHECK(named(result, "grad.x").formula == "grad.x.from.b + grad.x.from.a");
    CHECK(named(result, "grad.x").value.values == std::vector<double>{4, 6});
    CHECK(!has(result, "grad.a.from.output"));
}

TEST_CASE("what was cut into slices has their gradients side by side", "[formula][gradient]")
{
    const Array x{{2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}};
    const auto back = [&](const std::vector<std::pair<std::string, std::string>>& formulas) {
        Recording result = gradients(trace_of({input("x", x)}, formulas));
        CHECK(verify(result).passed());
        CHECK(std::ranges::all_of(check_gradients(result), &GradientCheck::agrees));
        return result;
    };
    // Slices as they are, in the order of the axis and not of their users.
    const Recording slices = back({{"a", "x[:, 3:4]"}, {"b", "x[..., 0:3]"}, {"output", "sum(a, axis=1) + b @ b.T"}});
    CHECK(named(slices, "grad.x").formula == "concat(grad.b, grad.a, axis=-1)");
    CHECK(!has(slices, "grad.x.from.a"));
    // Slices inside of longer formulas are steps.
    const Recording gates = back({{"a", "sigmoid(x[..., 0:2])"}, {"b", "tanh(x[..., 2:4])"}, {"output", "a * b"}});
    CHECK(named(gates, "grad.x").formula == "concat(grad.x.from.a, grad.x.from.b, axis=-1)");
    CHECK(named(gates, "grad.x.from.a").formula == "grad.a * a * (1 - a)");
    CHECK(named(gates, "grad.x.from.a").value.shape == Shape{2, 2});
    const Recording rows = back({{"a", "x[0] * 2"}, {"b", "x[1] * a"}});
    CHECK(named(rows, "grad.x").formula == "concat(grad.x.from.a, grad.x.from.b, axis=0)");
    // A gap, an overlap, or another axis: each is padded, and they are added.
    for (const char* other : {"x[:, 2:4]", "x[:, 0:4]", "x[0:1]"}) {
        CAPTURE(other);
        const Recording sum = back({{"a", "x[:, 0:1]"}, {"b", other}, {"output", "sum(a) * b"}});
        CHECK(named(sum, "grad.x").formula == "grad.x.from.b + grad.x.from.a");
    }
}

TEST_CASE("a step that a hundred others use has sums of sums", "[formula][gradient]")
{
    std::vector<std::pair<std::string, std::string>> formulas;
    std::string total = "0 * x";
    for (int i = 0; i < 100; ++i) {
        formulas.emplace_back("y" + std::to_string(i), "x * " + std::to_string(i));
        total += " + y" + std::to_string(i);
    }
    formulas.emplace_back("output", total);
    const Recording result = gradients(trace_of({input("x", {{1}, {3}})}, formulas));
    CHECK(named(result, "grad.x").value.values == std::vector<double>{4950});
    CHECK(verify(result).passed());
}

TEST_CASE("the gain of a norm that all heads share has one gradient, under its own name", "[formula][gradient]")
{
    Numbers numbers(33);
    MultiHeadWeights weights = random_heads(numbers, {.h_d_v = 4});
    weights.query_norms = {{numbers.vector(2)}};
    weights.key_norms = {{numbers.vector(2)}};
    const Matrix x = numbers.matrix(3, 6);
    const KeyValueCache past{numbers.matrix(2, 4), numbers.matrix(2, 4)};
    for (const bool is_cached : {false, true}) {
        CAPTURE(is_cached);
        Recorder recorder;
        if (is_cached)
            cached_self_attention(x, past, weights, {.heads = 2}, Trace(recorder));
        else
            multi_head_attention(x, weights, {.heads = 2}, Trace(recorder));
        const Recording result = gradients(recorder.recording());
        CHECK(verify(result).passed());
        for (const std::string name : {"query_norm", "key_norm"}) {
            const std::string gradient = "grad." + name + ".gain";
            CHECK(std::ranges::count(result.steps, gradient, &Step::path) == 1);
            CHECK(&named(result, "grad.head.1." + name + ".gain") == &named(result, gradient));
            CHECK(std::ranges::count(result.steps, name + ".gain", &Step::path) == 1);
            CHECK(named(result, name + ".gain").value.values ==
                  to_array((name == "query_norm" ? weights.query_norms : weights.key_norms).front().gain).values);
            CHECK(has(result, gradient + ".from.head.0." + name + ".output"));
        }
        CHECK(std::ranges::all_of(check_gradients(result), &GradientCheck::agrees));
    }
}

TEST_CASE("a trace without its gradients has none, and nothing that follows from them", "[formula][gradient]")
{
    Recording forward = trace_of({input("x", {{2}, {1, 2}})}, {{"y", "x * x"}});
    forward.aliases.push_back({"output", "y"});
    Recording both = gradients(forward);
    both.steps.push_back(checked("moved", "x - grad.x", {{2}, {-1, -2}}));
    both.steps.push_back(checked("again", "moved * moved", {{2}, {1, 4}}));
    both.steps.push_back(checked("z", "y + 1", {{2}, {2, 5}}));
    both.aliases.push_back({"there", "moved"});
    const Recording left = without_gradients(both);
    std::vector<std::string> paths;
    for (const Step& step : left.steps)
        paths.push_back(step.path);
    CHECK(paths == std::vector<std::string>{"x", "y", "z"});
    CHECK(left.aliases.size() == 1);
    CHECK(named(gradients(left, {.of = "output"}), "grad.x").value.values == std::vector<double>{2, 4});
}

TEST_CASE("whole numbers, booleans and what leads elsewhere have no gradient", "[formula][gradient]")
{
    const Recording result =
        gradients(trace_of({input("x", {{2}, {1, 2}}), input("ids", {{2}, {1, 0}, ElementType::integer})},
                           {{"mask", "x < 2"}, {"other", "x * 3"}, {"output", "where(mask, x[ids], 0)"}}));
    for (const char* path : {"grad.ids", "grad.mask", "grad.other"})
        CHECK(!has(result, path));
    CHECK(named(result, "grad.x").value.values == std::vector<double>{0, 1});
}

TEST_CASE("names in a gradient's formula stand in the scope of its step", "[formula][gradient]")
{
    Numbers numbers(32);
    const EncoderWeights weights{{random_encoder_layer(numbers), random_encoder_layer(numbers)},
                                 random_norm(numbers, 6)};
    const Tensor3 x = numbers.tensor3(2, 5, 6);
    Recorder recorder;
    encoder(x, weights, {.attention = {.heads = 2, .causal = Causal{}}}, Trace(recorder));
    const Recording result = gradients(recorder.recording());
    CHECK(named(result, "grad.layers.1.self_attn.head.0.scaled").formula.starts_with("where("));
    CHECK(named(result, "grad.layers.1.self_attn.head.0.values").formula == "weights.T @ grad.context");
    CHECK(verify(result).passed());
    // Whatever else a step is called, its gradient is called, too.
    CHECK(named(result, "grad.layers.1.x").path == "grad.layers.0.norm2.output");
    for (const GradientCheck& check : check_gradients(result)) {
        CAPTURE(check.input, check.by_gradient, check.by_differences, check.error);
        CHECK(check.agrees());
    }
}

TEST_CASE("a step that a scope further in hides has another name in a gradient's formula", "[formula][gradient]")
{
    const Array x{{2}, {3, 4}}, right{{2}, {5, 6}}, hiding{{2}, {7, 8}};
    const Recording forward = trace_of(
        {input("inner.x", x), input("inner.gain", hiding), input("inner.outer.gain", hiding), input("gain", right)},
        {{"y", "inner.x * gain"}, {"inner.y", "inner.x * inner.gain"}, {"z", "y * y * inner.y"}});
    const Recording result = gradients(forward, {.of = "y"});
    CHECK(named(result, "grad.inner.x").value.values == right.values);
    CHECK(named(result, "grad.inner.x").formula == "grad.y * outer.outer.gain");
    CHECK(verify(result).passed());
    // Both y and inner.y use inner.x.
    const Recording both = gradients(forward, {.of = "z"});
    CHECK(has(both, "grad.inner.x.from.y"));
    CHECK(has(both, "grad.inner.x.from.outer.y"));
    CHECK(verify(both).passed());
    CHECK(std::ranges::all_of(check_gradients(both), &GradientCheck::agrees));
}

TEST_CASE("gradients that can't be taken are refused with a reason", "[formula][gradient]")
{
    const Recording forward = trace_of({input("x", {{2}, {1, 2}})}, {{"mask", "x < 2"}, {"scores", "x * x"}});
    CHECK_THROWS_WITH(gradients(forward, {.of = "score"}), ContainsSubstring("score; did you mean scores?"));
    CHECK_THROWS_WITH(gradients(forward, {.of = "mask"}), ContainsSubstring("booleans"));
    CHECK_THROWS_WITH(gradients(forward, {.of = "scores", .seed = Array{{3}, {1, 2, 3}}}),
                      ContainsSubstring("(3,)") && ContainsSubstring("(2,)"));
    CHECK_THROWS_WITH(gradients(gradients(forward)), ContainsSubstring("gradients already"));
    CHECK_THROWS_WITH(check_gradients(forward), ContainsSubstring("no gradients"));
    CHECK_THROWS_AS(gradients({}), Error);
}

TEST_CASE("no gradient arrives at the ids of rows, even where they are real numbers", "[formula][gradient]")
{
    const Array x{{3, 2}, {1, 2, 3, 4, 5, 6}}, ids{{2}, {2, 0}}, others{{2}, {1, 1}};
    const Recording result = gradients(trace_of({input("x", x), input("ids", ids), input("others", others)},
                                                {{"rows", "x[ids]"}, {"y", "scatter_add(rows, others, 2)"}}),
                                       {.of = "y"});
    CHECK_FALSE(has(result, "grad.ids"));
    CHECK_FALSE(has(result, "grad.others"));
    CHECK(named(result, "grad.x").value.values == std::vector<double>{1, 1, 0, 0, 1, 1});
}
