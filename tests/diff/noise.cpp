// What is noise, in which type MINE computed, and what no rounding explains.

#include "attn/diff/diff.hpp"

#include "runs.hpp"
#include "test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/reference/attention/dot_product.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

using namespace attn;
using namespace attn::diff;
using namespace attn::files;
using namespace attn::mistakes;
using namespace attn::test;

// -------------------------------------------------------------------------------------------------------- same and noise

TEST_CASE("a trace differs in nothing from itself", "[diff]")
{
    for (const Run& run : runs) {
        const Recording reference = recording_of(run);
        const Diff same = diff::compare(reference, arrays_of(reference));
        CHECK(same.passed());
        CHECK(same.count(DiffVerdict::equal) == reference.steps.size());
        CHECK(same.first_different() == nullptr);
        CHECK(same.first_wrong() == nullptr);
        CHECK(same.missing.empty());
        CHECK(same.extra.empty());
    }
}

TEST_CASE("a double computation in another order is equal, not noise", "[diff]")
{
    for (const Run& run : runs) {
        const Recording reference = recording_of(run);
        Recording mine = reference;
        for (Step& step : mine.steps)
            if (!step.formula.empty() && step.value.type == ElementType::real)
                for (double& value : step.value.values)
                    value *= 1 + 0x1p-52;
        const Diff result = diff::compare(reference, arrays_of(mine));
        CHECK(result.passed());
        CHECK(result.type == NumberType::float64);
        CHECK(result.count(DiffVerdict::equal) == reference.steps.size());
    }
}

TEST_CASE("a right computation in few digits is noise of its type, and passes", "[diff]")
{
    const std::vector<std::pair<Precision, NumberType>> types{{Precision::float32, NumberType::float32},
                                                              {Precision::bfloat16, NumberType::bfloat16},
                                                              {Precision::float16, NumberType::float16}};
    for (const auto& [precision, type] : types)
        for (const Run& run : runs) {
            CAPTURE(name_of(type));
            const Recording reference = recording_of(run);
            // Rounded as it goes, and rounded when it is kept.
            RoundSteps rounding(precision);
            for (const Diff& result : {diff::compare(reference, rounded(recording_of(run, rounding), precision)),
                                       diff::compare(reference, rounded(reference, precision))}) {
                for (const StepDiff& step : result.steps) {
                    CAPTURE(step.step->path, step.message, step.distance.absolute, step.distance.tolerance);
                    CHECK(step.passed());
                }
                CHECK(result.passed());
                CHECK(result.type == type);
                CHECK(result.count(DiffVerdict::noise) > 10);
            }
        }
}

TEST_CASE("a right computation in few digits passes where most steps are not kept", "[diff]")
{
    const Recording reference = recording_of(run_stack);
    for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
        RoundSteps rounding(precision);
        const NamedArrays all = rounded(recording_of(run_stack, rounding), precision);
        NamedArrays few;
        for (const auto& [name, array] : all)
            if (name.ends_with("weights") || name == "output" || name == "layers.1.x" || name == "x")
                few.emplace(name, array);
        const Diff result = diff::compare(reference, few);
        CAPTURE(name_of(precision));
        for (const StepDiff& step : result.steps) {
            CAPTURE(step.step->path, step.message, step.distance.absolute, step.distance.tolerance);
            CHECK(step.passed());
        }
    }
}

TEST_CASE("what is left of numbers that nearly cancel is noise of their size, where they are not kept", "[diff]")
{
    Numbers numbers(23);
    ByFormulas program;
    Array near = to_array(numbers.vector(16));
    program.given("x", to_array(numbers.vector(16))).given("w", to_array(numbers.vector(16))).given("v", near);
    for (std::size_t i = 0; i < near.size(); ++i)
        near.values[i] = program.recording.steps[0].value.values[i] * program.recording.steps[1].value.values[i] /
                         near.values[i] * (1 + 1e-4);
    program.given("y", near).computed("left", "x * w").computed("right", "y * v").computed("rest", "left - right");
    const auto with_error = [&](double factor) {
        Array rest = named(program.recording, "rest").value;
        for (std::size_t i = 0; i < rest.size(); ++i) {
            const auto of = [&](const char* path) { return named(program.recording, path).value.values[i]; };
            const auto single = [&](const char* path) { return static_cast<float>(of(path)); };
            const float left = single("x") * single("w"), right = single("y") * single("v");
            rest.values[i] = static_cast<float>((left - right) + factor * of("left"));
        }
        return diff::compare(program.recording, {{"rest", rest}}).passed();
    };
    CHECK(with_error(0));
    CHECK_FALSE(with_error(1e-5));
}

TEST_CASE("a difference of one part in ten thousand is no noise of float32", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = rounded(reference, Precision::float32);
    double& value = mine["self_attn.head.1.context"].values[2];
    value = rounded_to(Precision::float32, value * 1.0001);
    const Diff result = diff::compare(reference, std::move(mine));
    CHECK(result.type == NumberType::float32);
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->step->path == "self_attn.head.1.context");
    CHECK_THAT(result.first_wrong()->place, ContainsSubstring("head 1, query"));
}

TEST_CASE("whole numbers prove no type, so that a wrong one is no noise", "[diff]")
{
    Recording reference;
    reference.steps.resize(1);
    reference.steps[0].path = "scores";
    reference.steps[0].value = {{3}, {250, 3, 4}, ElementType::real};
    const Diff result = diff::compare(reference, NamedArrays{{"scores", {{3}, {251, 3, 4}, ElementType::real}}});
    CHECK(result.type == NumberType::float64);
    CHECK(result.count(DiffVerdict::bug) == 1);
}

TEST_CASE("where only some arrays are float32, all are compared as float32 unless --type says otherwise",
          "[diff][type]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = rounded(reference, Precision::float32);
    mine["norm1.mean"] = named(reference, "norm1.mean").value;
    const Diff seen = diff::compare(reference, mine);
    CHECK(seen.type == NumberType::float32);
    CHECK_THAT(seen.hint, ContainsSubstring("arrays hold float32 numbers only"));
    CHECK(seen.passed());
    CHECK_FALSE(diff::compare(reference, mine, {.type = NumberType::float64}).passed());
}

TEST_CASE("numbers that were printed with nine digits are compared as float32", "[diff][type]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = rounded(reference, Precision::float32);
    for (auto& [name, array] : mine)
        for (double& value : array.values)
            value = std::stod(fmt::format("{:.9g}", value));
    const Diff seen = diff::compare(reference, mine);
    CHECK(seen.type == NumberType::float32);
    CHECK(seen.passed());
}

namespace {

/// Attention in which query 2 can attend to nothing.
Recording with_an_empty_row()
{
    return recording_of([](const Trace& trace) {
        Numbers numbers(43);
        Mask mask(Mask::shape_type{5, 6}, true);
        for (std::size_t j = 0; j < 6; ++j)
            mask(2, j) = false;
        scaled_dot_product_attention(numbers.matrix(5, 4), numbers.matrix(6, 4), numbers.matrix(6, 3), {.mask = mask},
                                     trace);
    });
}

/// A step as a program has it that computes in float32, with NaN for query 2, and stores float64.
Array in_float32_with_nan(const Recording& reference, const std::string& path)
{
    Array array = arrays_of(reference).at(path);
    for (std::size_t i = 0; i < array.size(); ++i)
        array.values[i] =
            i / array.shape.back() == 2 ? NAN : array.values[i] * (1 + 6e-8 * std::sin(static_cast<double>(i) + 1));
    return array;
}

} // namespace

TEST_CASE("float32 in float64 is recognised beside NaN where a query can attend to nothing", "[diff][type]")
{
    const Recording reference = with_an_empty_row();
    for (const std::string path : {"context", "weights"}) {
        CAPTURE(path);
        const Diff result = diff::compare(reference, {{path, in_float32_with_nan(reference, path)}});
        CHECK(result.passed());
        CHECK(result.type == NumberType::float32);
    }
}

TEST_CASE("NaN where a query can attend to nothing is not what is said of weights that are wrong elsewhere", "[diff]")
{
    const Recording reference = with_an_empty_row();
    Array weights = in_float32_with_nan(reference, "weights");
    weights.values[1] += 0.01;
    const Diff result = diff::compare(reference, {{"weights", weights}}, {.type = NumberType::float32});
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->message.starts_with("differs in 1 of its 30 numbers"));
    CHECK(result.first_wrong()->distance.worst == Shape{0, 1});
}

TEST_CASE("what the trace does not compute can be another run's result, in double", "[diff][type]")
{
    const Recording reference{{{"change", "", {}, "", {}, {{2}, {0, 3.7397583374}}},
                               {"square", "change ** 2", {}, "", {}, {{2}, {0, 3.7397583374 * 3.7397583374}}}},
                              {}};
    const auto with_change = [&](double change) {
        return diff::compare(reference, {{"change", {{2}, {0, change}}}, {"square", {{2}, {0, change * change}}}});
    };
    const Diff result = with_change(3.7397583374 + 1e-14);
    CHECK(result.type == NumberType::float64);
    CHECK(result.count(DiffVerdict::equal) == 2);
    CHECK(with_change(3.7397583374 + 1e-11).count(DiffVerdict::equal) < 2);
}

TEST_CASE("what is multiplied in fewer digits than it is stored in is told which type makes it noise", "[diff]")
{
    const Recording reference = recording_of(run_stack);
    RoundSteps coarse(Precision::float16);
    NamedArrays mine = rounded(recording_of(run_stack, coarse), Precision::float32);
    for (auto& [name, array] : mine) // as if it had been stored in float32: no number is exactly float16
        if (array.type == ElementType::real)
            for (double& value : array.values)
                value = rounded_to(Precision::float32, value * (1 + 0x1p-20));
    const Diff result = diff::compare(reference, mine);
    CHECK(result.type == NumberType::float32);
    CHECK_FALSE(result.passed());
    CHECK_THAT(result.hint, ContainsSubstring(" or TF32, say so with --type float16"));
    CHECK(diff::compare(reference, mine, {.type = NumberType::float16}).passed());
    Planted planted("layers.0.self_attn.head.0.scaled", 0.5);
    CHECK(diff::compare(reference, rounded(recording_of(run_stack, planted), Precision::float32)).hint.empty());
}

TEST_CASE("a tolerance that is given replaces the measured one", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = arrays_of(reference);
    mine["output"].values[0] += 1e-3;
    CHECK_FALSE(diff::compare(reference, mine).passed());
    CHECK(diff::compare(reference, mine, {.atol = 2e-3}).passed());
    CHECK_FALSE(diff::compare(reference, mine, {.atol = 5e-4}).passed());
    mine = rounded(reference, Precision::float32);
    CHECK(diff::compare(reference, mine).passed());
    CHECK_FALSE(diff::compare(reference, mine, {.rtol = 1e-12}).passed());
    CHECK(diff::compare(reference, mine, {.atol = 1e-6, .rtol = 1e-6}).passed());
}

// -------------------------------------------------------------------------------------------------------- no noise

namespace {

/// Averages of the first keys of each sequence, with the lengths as a file of version 1 has them: as real numbers.
Recording padded_averages(const std::vector<double>& lengths)
{
    ByFormulas program;
    program.given("lengths", real({3}, lengths))
        .given("scores", real({3, 4}, {0.3, -1.7, 0.9, 2.1, 1.3, 0.2, -0.6, 0.7, -0.1, 0.4, 1.9, -2.3}))
        .computed("padding", "arange(4) < lengths[:, None]")
        .computed("weights", "softmax(where(padding, scores, -inf))")
        .computed("count", "sum(where(padding, 1, 0), axis=-1)")
        .computed("places", "where(padding, arange(4), 0)")
        .computed("kept", "scores[:, :] * count[:, None]");
    return program.recording;
}

} // namespace

TEST_CASE("lengths that are real numbers are not moved by roundings, so that what ignores them is wrong",
          "[diff][exact]")
{
    const Recording reference = padded_averages({2, 3, 1}), ignoring = padded_averages({4, 4, 4});
    for (const NumberType type : {NumberType::float64, NumberType::float32, NumberType::bfloat16})
        for (const char* path : {"padding", "weights", "count", "places", "kept"}) {
            CAPTURE(path, name_of(type));
            const Diff alone =
                diff::compare(reference, NamedArrays{{path, named(ignoring, path).value}}, {.type = type});
            CHECK_FALSE(alone.passed());
            CHECK(diff::compare(reference, NamedArrays{{path, named(reference, path).value}}, {.type = type}).passed());
        }
}

TEST_CASE("no constant, and no other numbers, are noise of whole numbers", "[diff][exact]")
{
    const Recording reference = padded_averages({2, 3, 1});
    for (const char* path : {"places", "count", "lengths"})
        for (const double number : {0.0, 1.0, 5.3, 1 + 0x1p-20}) {
            CAPTURE(path, number);
            Array array = named(reference, path).value;
            std::ranges::fill(array.values, number);
            CHECK_FALSE(diff::compare(reference, NamedArrays{{path, array}}).passed());
        }
    Array moved = named(reference, "lengths").value;
    moved.values[0] += 0x1p-22;
    CHECK_FALSE(diff::compare(reference, NamedArrays{{"lengths", moved}}, {.type = NumberType::float32}).passed());
}

TEST_CASE("what jumps from one whole number to another is not measured as noise", "[diff][exact]")
{
    ByFormulas program;
    program.given("x", real({4}, {0.1, 0.2, 0.3, 0.4}))
        .given("y", real({4}, {0.1, 0.2, 0.3, 0.5}))
        .computed("changed", "sum(where(abs(x - y) > 0, 1, 0))");
    const Recording& reference = program.recording;
    REQUIRE(named(reference, "changed").value.values == std::vector<double>{1});
    CHECK_FALSE(
        diff::compare(reference, NamedArrays{{"changed", real({}, {3})}}, {.type = NumberType::float32}).passed());
}

TEST_CASE("in a short type, each operation of a formula can have been stored, and what cancels then is noise",
          "[diff][type]")
{
    const Array hidden = real({4}, {-3.125, -4.5625, -4.5625, -0.703125}); // numbers of bfloat16
    ByFormulas program;
    program.given("hidden", hidden)
        .computed("activated", "0.5 * hidden * (1 + tanh(sqrt(2 / pi) * (hidden + 0.044715 * hidden ** 3)))");
    Array stored = named(program.recording, "activated").value;
    stored.values = {0, 0, 0, rounded_to(NumberType::bfloat16, stored.values[3])}; // 1 + tanh(-3.58) is 1 - 1
    const auto passes = [&](NumberType type) {
        return diff::compare(program.recording, {{"hidden", hidden}, {"activated", stored}}, {.type = type}).passed();
    };
    CHECK(passes(NumberType::bfloat16));
    CHECK_FALSE(passes(NumberType::float16));
    stored.values[0] = 0x1p-7; // two roundings of 1 away, times -1.6
    CHECK_FALSE(passes(NumberType::bfloat16));
}

TEST_CASE("numbers of float16 that need no more digits than bfloat16 has make no program one in bfloat16",
          "[diff][type]")
{
    const Array x = real({4}, {0.3, 0.7, -1.1, 1.9});
    ByFormulas program;
    program.given("x", x)
        .computed("sine", "sin(x)")
        .computed("few", "sine[0:2] * 0.1")
        .computed("tiny", "sine[0:2] * 1e-6");
    NamedArrays mine;
    for (const char* path : {"sine", "few", "tiny"}) {
        Array array = named(program.recording, path).value;
        const NumberType type = path == std::string("sine") ? NumberType::float16 : NumberType::bfloat16;
        for (double& value : array.values)
            value = rounded_to(NumberType::float16, rounded_to(type, value));
        mine.emplace(path, array);
    }
    const Diff result = diff::compare(program.recording, mine);
    CHECK(result.type == NumberType::float16);
    CHECK(result.hint.empty());
    for (double& value : mine.at("sine").values) // of a program in bfloat16 that keeps some numbers in float32
        value = rounded_to(NumberType::float32, value + 1e-4);
    CHECK(diff::compare(program.recording, mine).type == NumberType::bfloat16);
}

TEST_CASE("float32 in float64 is recognised where it moved one number", "[diff][type]")
{
    const Array x = real({8}, {0.3, 0.7, -1.1, 1.9, 0.1, 0.2, 0.4, 0.6});
    ByFormulas program;
    program.given("x", x).computed("y", "sin(x)");
    const auto with_one_off = [&](double times) {
        Array y = named(program.recording, "y").value;
        y.values[2] *= times;
        return diff::compare(program.recording, NamedArrays{{"y", y}});
    };
    CHECK(with_one_off(1 + 4e-9).passed());
    CHECK_THAT(with_one_off(1 + 4e-9).hint, ContainsSubstring("right to the digits of float32"));
    CHECK_FALSE(with_one_off(1 + 4e-6).passed());
}

TEST_CASE("float32 in float64 moves many of the numbers that it rounds, or leaves all others to the last digit",
          "[diff][type]")
{
    // What is left of numbers of a million is allowed to be off by 1e-10 or so.
    ByFormulas program;
    program.given("x", real({8}, {0.3, 0.7, -1.1, 1.9, 0.1, 0.2, 0.4, 0.6}))
        .computed("y", "where(arange(8) < 7, x + 1e6 - 1e6, 0.5)")
        .computed("z", "where(arange(8) < 2, x + 1e6 - 1e6, 0.5)");
    const auto passes = [&](const std::string& path, double others) {
        Array array = named(program.recording, path).value;
        for (double& value : array.values)
            value += value == 0.5 ? 0 : others;
        array.values[1] += 1e-6;
        return diff::compare(program.recording, NamedArrays{{path, array}}).passed();
    };
    CHECK(passes("y", 0));
    CHECK_FALSE(passes("y", 2e-11)); // one is off, the others by what double explains
    CHECK(passes("z", 2e-11));       // one of two is off, 0.5 is a number of float32
}

TEST_CASE("NaN tells of no type", "[diff][type]")
{
    const Recording reference = with_an_empty_row();
    Array weights = arrays_of(reference).at("weights"), context = arrays_of(reference).at("context");
    weights.values[0] += 1e-9; // compared as float64, whatever else MINE has
    std::ranges::fill(context.values, NAN);
    const Diff result = diff::compare(reference, {{"weights", weights}, {"context", context}});
    CHECK(result.type == NumberType::float64);
    CHECK(result.hint.find("float32") == std::string::npos);
    Array some = arrays_of(reference).at("scores");
    for (std::size_t i = 0; i < some.size(); ++i)
        some.values[i] = i % 2 == 0 ? NAN : 0.5;
    CHECK(diff::compare(reference, {{"scores", some}}).type == NumberType::float64);
}

TEST_CASE("an integer or boolean step is compared exactly", "[diff][exact]")
{
    Recording reference = padded_averages({2, 3, 1});
    for (Step& step : reference.steps)
        if (step.path == "lengths" || step.path == "count" || step.path == "places")
            step.value.type = ElementType::integer;
    NamedArrays mine = arrays_of(reference);
    CHECK(diff::compare(reference, mine, {.type = NumberType::bfloat16}).passed());
    mine["count"].values[1] += 0x1p-8;
    const Diff result = diff::compare(reference, mine, {.type = NumberType::bfloat16});
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->step->path == "count");
}

TEST_CASE("zeros, ones, powers of two and small whole numbers prove no short type", "[diff][type]")
{
    const Recording reference = recording_of(run_layer);
    for (const double number : {0.0, 1.0, 0.25, 3.0}) {
        Array output = named(reference, "output").value;
        std::ranges::fill(output.values, number);
        const Diff result = diff::compare(reference, NamedArrays{{"output", output}});
        CHECK(result.type == NumberType::float64);
        CHECK_FALSE(result.passed());
    }
    Array output = named(reference, "output").value;
    for (double& value : output.values)
        value = rounded_to(NumberType::bfloat16, value);
    CHECK(diff::compare(reference, NamedArrays{{"output", output}}).type == NumberType::bfloat16);
}

TEST_CASE("inputs that were rounded to a shorter type are told from wrong ones, and the result from them is right",
          "[diff][type]")
{
    ByFormulas program, rounded_program;
    const Array x = real({2, 2}, {0.1, 0.7, -0.3, 1.9});
    Array single = x;
    for (double& value : single.values)
        value = rounded_to(NumberType::float32, value);
    program.given("x", x).computed("y", "softmax(x @ x)");
    rounded_program.given("x", single).computed("y", "softmax(x @ x)");
    NamedArrays mine = arrays_of(rounded_program.recording);
    const Diff both = diff::compare(program.recording, mine);
    CHECK(both.type == NumberType::float64);
    CHECK(both.passed());
    CHECK_THAT(both.hint, ContainsSubstring("x is the reference's rounded to float32"));
    mine.erase("x");
    const Diff alone = diff::compare(program.recording, mine);
    CHECK(alone.passed());
    CHECK_THAT(alone.hint, ContainsSubstring("rounded to float32"));
    mine["y"].values[0] += 1e-5;
    CHECK_FALSE(diff::compare(program.recording, mine).passed());
}

TEST_CASE("rounded inputs explain one number of many to its last digit", "[diff][type]")
{
    Array x = real({8}, {0.1, 0.5, 0.25, 1.5, 2, 3, 0.75, 1.25}); // float32 rounds the first
    ByFormulas program, rounded_program;
    program.given("x", x).computed("y", "x * 0.3");
    x.values[0] = rounded_to(NumberType::float32, x.values[0]);
    rounded_program.given("x", x).computed("y", "x * 0.3");
    Array y = named(rounded_program.recording, "y").value;
    const Diff right = diff::compare(program.recording, NamedArrays{{"y", y}});
    CHECK(right.passed());
    CHECK_THAT(right.hint, ContainsSubstring("rounded to float32"));
    y.values[0] *= 1 + 1e-9;
    CHECK_THAT(diff::compare(program.recording, NamedArrays{{"y", y}}).hint,
               ContainsSubstring("right to the digits of float32"));
}

TEST_CASE("of many inputs that were rounded to a shorter type four are named, and the others counted", "[diff][type]")
{
    ByFormulas program, rounded_program;
    double number = 0.1;
    for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
        Array input = real({2, 2}, {number, -1.7 * number, 0.3 + number, 1.9 - number});
        program.given(name, input);
        for (double& value : input.values)
            value = rounded_to(NumberType::float32, value);
        rounded_program.given(name, input);
        number *= 1.3;
    }
    for (ByFormulas* one : {&program, &rounded_program})
        one->computed("y", "softmax(a @ b + c @ d + e @ f)");
    CHECK_THAT(diff::compare(program.recording, arrays_of(rounded_program.recording)).hint,
               ContainsSubstring("a, b, c, d and 2 more are the reference's rounded to float32"));
}

namespace {

Array in_float32(Array array)
{
    for (double& value : array.values)
        value = static_cast<float>(value);
    return array;
}

/// Attention as flash kernels compute it, in float32: the weights that it saves are exp(score - log of the sum), those that it
/// uses are exponentials that it divides by their sum at the end.
NamedArrays flash_attention(const Recording& reference)
{
    const Array &queries = named(reference, "queries").value, &keys = named(reference, "keys").value,
                &values = named(reference, "values").value;
    const std::size_t n = queries.shape[0], m = keys.shape[0], d_k = keys.shape[1], d_v = values.shape[1];
    Array scaled{{n, m}, {}}, weights{{n, m}, {}}, context{{n, d_v}, {}};
    for (std::size_t i = 0; i < n; ++i) {
        std::vector<float> scores, exponentials;
        for (std::size_t j = 0; j < m; ++j) {
            float score = 0;
            for (std::size_t d = 0; d < d_k; ++d)
                score += static_cast<float>(queries.values[i * d_k + d]) * static_cast<float>(keys.values[j * d_k + d]);
            scores.push_back(score / std::sqrt(static_cast<float>(d_k)));
        }
        const float largest = std::ranges::max(scores);
        float sum = 0;
        for (const float score : scores) {
            exponentials.push_back(std::exp(score - largest));
            sum += exponentials.back();
        }
        const float log_of_sum = largest + std::log(sum);
        for (const float score : scores) {
            scaled.values.push_back(score);
            weights.values.push_back(std::exp(score - log_of_sum));
        }
        for (std::size_t v = 0; v < d_v; ++v) {
            float total = 0;
            for (std::size_t j = 0; j < m; ++j)
                total += exponentials[j] * static_cast<float>(values.values[j * d_v + v]);
            context.values.push_back(total / sum);
        }
    }
    return {{"scaled", scaled}, {"weights", weights}, {"context", context}};
}

} // namespace

TEST_CASE(
    "a flash kernel's context is right beside its weights, exp(score - log of the sum), however large the scores are",
    "[diff][noise]")
{
    for (unsigned draw = 0; draw < 50; ++draw) {
        Numbers numbers(500 + draw);
        const auto single = [](const Matrix& matrix) { return in_float32(to_array(matrix)); };
        const Recording reference = ByFormulas()
                                        .given("queries", single(numbers.matrix(6, 8) * 9)) // scores of up to 150
                                        .given("keys", single(numbers.matrix(12, 8) * 9))
                                        .given("values", single(numbers.matrix(12, 4)))
                                        .computed("scaled", "queries @ keys.T / sqrt(8)")
                                        .computed("weights", "softmax(scaled)")
                                        .computed("context", "weights @ values")
                                        .computed("output", "context * 3")
                                        .recording;
        const NamedArrays all = flash_attention(reference);
        Array output = all.at("context");
        for (double& value : output.values)
            value *= 3;
        const Array &weights = all.at("weights"), &context = all.at("context");
        for (NamedArrays mine : {all, NamedArrays{{"weights", weights}, {"context", context}},
                                 NamedArrays{{"weights", weights}, {"output", output}}}) {
            const Diff right = diff::compare(reference, mine);
            CAPTURE(draw, mine.size(), right.first_wrong() == nullptr ? "" : right.first_wrong()->message);
            CHECK(right.passed());
            // What no rounding does is still a bug.
            const std::string last = mine.contains("context") ? "context" : "output";
            for (double& value : mine.at(last).values)
                value *= 1.0001;
            CHECK(about(diff::compare(reference, mine), last).verdict == DiffVerdict::bug);
        }
    }
}

TEST_CASE("weights whose row does not sum to one are no noise, however large the scores are", "[diff][noise]")
{
    const Recording reference = ByFormulas()
                                    .given("x", real({2, 3}, {1, 2, 3, 5, 0.5, 1}))
                                    .computed("scores", "(x + 1e10) * 1.5")
                                    .computed("weights", "softmax(scores)")
                                    .recording;
    const auto verdict_of = [&](std::vector<double> weights) {
        return diff::compare(reference, NamedArrays{{"weights", real({2, 3}, std::move(weights))}},
                             {.type = NumberType::float32});
    };
    const Diff ones = verdict_of({1, 1, 1, 1, 1, 1});
    REQUIRE(ones.first_wrong() != nullptr);
    CHECK(ones.first_wrong()->distance.beyond > 0);
    CHECK_FALSE(verdict_of({0.2, 0.1, 0.1, 1, 0, 0}).passed());
    // In float32 scores of 1.5e10 are multiples of 1024: any weights that sum to one can follow from them.
    CHECK(verdict_of({0, 0, 1, 1, 0, 0}).passed());
    CHECK(verdict_of({1. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3, 1. / 3}).passed());
}
