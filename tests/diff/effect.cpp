// What differs before a softmax and not after it.

#include "attn/diff/diff.hpp"

#include "generators.hpp"
#include "runs.hpp"
#include "test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/reference/attention/mask.hpp"
#include "attn/reference/attention/weigh.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

using namespace attn;
using namespace attn::diff;
using namespace attn::files;
using namespace attn::formula;
using namespace attn::mistakes;
using namespace attn::test;

namespace {

/// Attention of four queries over four keys, of which each sees those up to its own place.
Recording causal_attention()
{
    Numbers numbers(31);
    const Matrix queries = numbers.matrix(4, 3), keys = numbers.matrix(4, 3), values = numbers.matrix(4, 2);
    Recorder recorder;
    scaled_dot_product_attention(queries, keys, values, {.causal = Causal::bottom_right}, Trace(recorder));
    return recorder.recording();
}

NamedArrays numbers_of(const Recording& recording)
{
    NamedArrays arrays;
    for (const Step& step : recording.steps)
        arrays[step.path] = step.value;
    return arrays;
}

/// The verdict on one step after each of its numbers was changed.
Diff diff_after(const std::string& path, const std::function<double(std::size_t, double)>& change)
{
    static const Recording reference = causal_attention();
    NamedArrays mine = numbers_of(reference);
    Array& array = mine.at(path);
    for (std::size_t i = 0; i < array.size(); ++i)
        array.values[i] = change(i, array.values[i]);
    return diff::compare(reference, mine);
}

/// What a step's formula gives from the arrays that a program has.
Array follows(const Recording& reference, const std::string& path, const NamedArrays& mine)
{
    const auto step = std::ranges::find(reference.steps, path, &Step::path);
    return evaluate(step->formula,
                    [&](std::string_view name) {
                        const auto found = mine.find(name == "mask" && !mine.contains("mask") ? "causal" : name);
                        return found == mine.end() ? nullptr : &found->second;
                    })
        .value;
}

DiffVerdict verdict_of(const Diff& diff, std::string_view path)
{
    for (const StepDiff& step : diff.steps)
        if (step.step->path == path)
            return step.verdict;
    throw std::out_of_range(std::string(path));
}

} // namespace

TEST_CASE("what has no effect, and was computed from something wrong, is wrong with it, and so is what follows",
          "[diff]")
{
    const Recording reference = causal_attention();
    NamedArrays mine = numbers_of(reference);
    for (double& number : mine.at("scaled").values)
        number *= 0.5;
    mine.at("masked") = follows(reference, "masked", mine);
    for (double& number : mine.at("masked").values)
        number = number == minus_infinity ? -1e9 : number;
    mine.at("weights") = follows(reference, "weights", mine);
    mine.at("context") = follows(reference, "context", mine);
    mine.erase("weights");
    const Diff result = diff::compare(reference, mine);
    CHECK(verdict_of(result, "scaled") == DiffVerdict::bug);
    CHECK(verdict_of(result, "masked") == DiffVerdict::inherited);
    CHECK(verdict_of(result, "context") == DiffVerdict::inherited);
}

TEST_CASE("a fill whose weights softmax makes zero has no effect", "[diff][effect]")
{
    for (const double fill : {-1e9, -1e4, -3.4028234663852886e38}) {
        CAPTURE(fill);
        const Diff result =
            diff_after("masked", [&](std::size_t, double value) { return std::isinf(value) ? fill : value; });
        CHECK(result.passed());
        CHECK(verdict_of(result, "masked") == DiffVerdict::no_effect);
        CHECK(verdict_of(result, "weights") == DiffVerdict::equal);
        CHECK(result.first_wrong() == nullptr);
    }
}

TEST_CASE("a fill that leaves a masked key a weight is wrong", "[diff][effect]")
{
    const Recording reference = causal_attention();
    NamedArrays mine = numbers_of(reference);
    for (double& value : mine.at("masked").values)
        value = std::isinf(value) ? -10 : value;
    for (const char* path : {"weights", "context"})
        mine.at(path) = follows(reference, path, mine);
    const Diff result = diff::compare(reference, mine);
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->step->path == "masked");
}

TEST_CASE("a shift of each row of scores has no effect, a shift of each column has one", "[diff][effect]")
{
    const Recording reference = causal_attention();
    const auto after_shift = [&](bool is_of_rows) {
        NamedArrays mine = numbers_of(reference);
        Array& scaled = mine.at("scaled");
        for (std::size_t i = 0; i < scaled.size(); ++i)
            scaled.values[i] += 0.5 * static_cast<double>(1 + (is_of_rows ? i / 4 : i % 4));
        for (const char* path : {"masked", "weights", "context"})
            mine.at(path) = follows(reference, path, mine);
        return diff::compare(reference, mine);
    };
    CHECK(verdict_of(after_shift(true), "scaled") == DiffVerdict::no_effect);
    CHECK(after_shift(true).passed());
    CHECK(verdict_of(after_shift(false), "scaled") == DiffVerdict::bug);
}

TEST_CASE("a shift of each row of float32 scores has no effect, unless it swallows them", "[diff][effect]")
{
    const Recording reference = causal_attention();
    const auto single = [](Array array) {
        for (double& value : array.values)
            value = static_cast<float>(value);
        return array;
    };
    const auto after_shift = [&](double shift) {
        NamedArrays mine = rounded(reference, Precision::float32);
        for (std::size_t i = 0; i < mine["scaled"].size(); ++i) // as ALiBi whose bias knows of the key's place alone
            mine["scaled"].values[i] += shift * static_cast<double>(i / 4);
        mine["scaled"] = single(mine["scaled"]);
        for (const char* path : {"masked", "weights", "context"})
            mine[path] = single(follows(reference, path, mine));
        return diff::compare(reference, mine);
    };
    for (const double shift : {1.0, 100.0, 10000.0}) {
        CAPTURE(shift);
        const Diff result = after_shift(shift);
        CHECK(verdict_of(result, "scaled") == DiffVerdict::no_effect);
        CHECK(verdict_of(result, "weights") == DiffVerdict::noise);
        CHECK(result.passed());
    }
    CHECK(verdict_of(after_shift(1e9), "scaled") == DiffVerdict::bug);
}

TEST_CASE("scores of another stage, before weights that are right, have no effect", "[diff][effect]")
{
    // A program that masks before it scales has, for the masked scores, some that are larger by the root of d_k.
    const Diff result = diff_after("masked", [](std::size_t, double value) { return std::sqrt(3) * value; });
    CHECK(verdict_of(result, "masked") == DiffVerdict::no_effect);
    CHECK(result.first_wrong() == nullptr);
    CHECK(diagnose(result).empty());
    // One that scales the queries has, for the scores, those that are scaled.
    const Diff scaled = diff_after("scores", [](std::size_t, double value) { return value / std::sqrt(3); });
    CHECK(verdict_of(scaled, "scores") == DiffVerdict::no_effect);
}

TEST_CASE("scores times a factor that no stage of them has are wrong, whatever follows", "[diff][effect]")
{
    const Recording reference = causal_attention();
    for (const char* path : {"scores", "masked"})
        for (const double factor : {0.5, 1.1, 3.0})
            for (const bool has_queries : {true, false}) {
                CAPTURE(path, factor, has_queries);
                NamedArrays mine = numbers_of(reference);
                for (double& value : mine.at(path).values)
                    value *= factor;
                if (!has_queries) {
                    mine.erase("queries");
                    mine.erase("keys");
                }
                const Diff result = diff::compare(reference, mine);
                REQUIRE(result.first_wrong() != nullptr);
                CHECK(result.first_wrong()->step->path == path);
                CHECK(verdict_of(result, path) == DiffVerdict::bug);
            }
}

TEST_CASE("NaN for a query that can attend to nothing has no effect, NaN elsewhere has one", "[diff][effect]")
{
    Recorder recorder;
    Numbers numbers(32);
    const Matrix scores = numbers.matrix(3, 4), values = numbers.matrix(4, 2);
    const Mask mask{{true, true, false, true}, {false, false, false, false}, {true, false, true, true}};
    const Trace trace(recorder);
    weigh_values(trace.input("scores[n, m]", scores), "scores", trace.input("values[m, d_v]", values), {.mask = mask},
                 trace);
    const Recording reference = recorder.recording();
    const auto after_nan_in = [&](std::size_t row) {
        NamedArrays mine = numbers_of(reference);
        for (std::size_t i = 4 * row; i < 4 * row + 4; ++i)
            mine.at("weights").values[i] = std::nan("");
        mine.at("context") = follows(reference, "context", mine);
        return diff::compare(reference, mine);
    };
    CHECK(after_nan_in(1).passed());
    CHECK(verdict_of(after_nan_in(1), "weights") == DiffVerdict::no_effect);
    CHECK_FALSE(after_nan_in(0).passed());

    // Scores less their largest are NaN there, too: minus infinity less itself.
    NamedArrays shifted = numbers_of(reference);
    for (std::size_t i = 0; i < 12; ++i)
        shifted.at("masked").values[i] = i / 4 == 1 ? std::nan("") : shifted.at("masked").values[i] - 0.5;
    CHECK(verdict_of(diff::compare(reference, shifted), "masked") == DiffVerdict::no_effect);
    shifted.at("masked").values[0] = std::nan("");
    CHECK(verdict_of(diff::compare(reference, shifted), "masked") == DiffVerdict::bug);

    // From the context alone, too: NaN in the row of that query is right, NaN in another one is not.
    Array context = std::ranges::find(reference.steps, "context", &Step::path)->value;
    context.values[2] = context.values[3] = std::nan("");
    CHECK(diff::compare(reference, NamedArrays{{"context", context}}).passed());
    context.values[0] = std::nan("");
    CHECK_FALSE(diff::compare(reference, NamedArrays{{"context", context}}).passed());
}

TEST_CASE("NaN in a single number of a softmax is a bug of that number", "[diff][effect]")
{
    ByFormulas program;
    program.given("x", real({3}, {0.5, 1, 2})).computed("y", "softmax(x)[0]");
    const Diff result = diff::compare(program.recording, NamedArrays{{"y", real({}, {std::nan("")})}});
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->message.starts_with("is NaN in 1 of its 1 number"));
}

TEST_CASE("a difference without effect does not hide a later mistake", "[diff][effect]")
{
    const Recording reference = causal_attention();
    NamedArrays mine = numbers_of(reference);
    for (double& value : mine.at("masked").values)
        value = std::isinf(value) ? -1e9 : value;
    mine.at("context").values[0] += 0.25;
    const Diff result = diff::compare(reference, mine);
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->step->path == "context");
}

TEST_CASE("a well-known fill is diagnosed even though it has no effect", "[diff][effect][diagnose]")
{
    const auto names = [](double fill) {
        std::vector<std::string_view> ids;
        const Diff result =
            diff_after("masked", [&](std::size_t, double value) { return std::isinf(value) ? fill : value; });
        for (const Diagnosis& diagnosis : diagnose(result))
            ids.push_back(diagnosis.pitfall->id);
        return ids;
    };
    CHECK(names(-1e4) == std::vector<std::string_view>{"mask_finite"});
    CHECK(names(-1e9).empty());
}

TEST_CASE("a difference that no softmax follows has an effect", "[diff][effect]")
{
    CHECK(verdict_of(diff_after("values", [](std::size_t, double value) { return value + 1; }), "values") ==
          DiffVerdict::bug);
    CHECK(verdict_of(diff_after("weights", [](std::size_t, double value) { return value / 2; }), "weights") ==
          DiffVerdict::bug);
}

TEST_CASE("shifted scores that are the right ones in another order, too, differ without effect", "[diff][effect]")
{
    ByFormulas program;
    program.given("x", real({2, 2}, {0.6, 0.1, 0.1, -0.4}))
        .computed("scores", "x * 1.5")
        .computed("weights", "softmax(scores)");
    const std::vector<double> right = named(program.recording, "scores").value.values;
    const NamedArrays mine{{"scores", real({2, 2}, {right[2], right[3], right[0], right[1]})}};
    const Diff result = diff::compare(program.recording, mine);
    REQUIRE(result.steps.size() == 1);
    CHECK(result.steps[0].verdict == DiffVerdict::no_effect);
    CHECK(result.passed());
}

TEST_CASE("what follows from even weights of queries that can attend to nothing is found by its numbers",
          "[diff][effect]")
{
    const auto program = [](const std::string& weights) {
        Numbers numbers(5);
        const auto next = [&] {
            const Matrix matrix = numbers.matrix(4, 4);
            return real({4, 4}, {matrix.begin(), matrix.end()});
        };
        Array mask{{4, 4}, {0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1, 1, 1}, ElementType::boolean};
        ByFormulas made;
        made.given("x", next()).given("mask", mask).given("w1", next()).given("w2", next());
        made.computed("masked", "where(mask, x @ w1, -inf)")
            .computed("weights", weights)
            .computed("context", "weights @ x");
        made.computed("hidden", "tanh(context @ w2)").computed("more", "hidden @ w1").computed("output", "more + x");
        return made.recording;
    };
    const Recording reference = program("softmax(masked)");
    NamedArrays mine;
    for (const Step& step : program("softmax(where(mask, x @ w1, -1e30))").steps)
        if (step.path != "mask")
            mine.emplace("my_" + step.path.substr(0, 2) + step.path.back(), step.value);
    const Diff result = diff::compare(reference, mine);
    CHECK(result.first_different() == nullptr);
    CHECK(result.steps.size() == mine.size());
    CHECK(result.hint.find("even weights") != std::string::npos);
}

TEST_CASE("even weights of queries that can attend to nothing are right, and other ones are not", "[diff][effect]")
{
    Numbers numbers(37);
    const Matrix queries = numbers.matrix(4, 3), keys = numbers.matrix(4, 3), values = numbers.matrix(4, 2);
    Mask mask(Mask::shape_type{4, 4}, true);
    for (std::size_t key = 0; key < 4; ++key)
        mask(1, key) = false;
    Recorder recorder;
    scaled_dot_product_attention(queries, keys, values, {.mask = mask}, Trace(recorder));
    const Recording reference = recorder.recording();
    const auto with_row = [&](double first, double others) {
        Array context = reference.steps.back().value;
        for (std::size_t i = 0; i < 2; ++i)
            context.values[2 + i] = first * values(0, i) + others * (values(1, i) + values(2, i) + values(3, i));
        return diff::compare(reference, {{"context", context}});
    };
    const Diff even = with_row(0.25, 0.25), other = with_row(0.4, 0.2);
    CHECK(even.passed());
    CHECK(even.hint.find("even weights") != std::string::npos);
    CHECK_FALSE(other.passed());
}
