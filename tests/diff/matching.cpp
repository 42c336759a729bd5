// Arrays under names of their own, found by their numbers.

#include "attn/diff/diff.hpp"

#include "reference/layers/examples.hpp"
#include "runs.hpp"
#include "test.hpp"

#include "attn/core/error.hpp"
#include "attn/core/recorder.hpp"

#include <algorithm>
#include <cmath>

using namespace attn;
using namespace attn::diff;
using namespace attn::files;
using namespace attn::test;

namespace {

Array value_of(const Recording& recording, const std::string& path)
{
    return std::ranges::find(recording.steps, path, &Step::path)->value;
}

/// The arrays of both heads, one after the other: (h, n, d).
Array of_heads(const Recording& recording, const std::string& name)
{
    Array both = value_of(recording, "self_attn.head.0." + name);
    const Array second = value_of(recording, "self_attn.head.1." + name);
    both.values.insert(both.values.end(), second.values.begin(), second.values.end());
    both.shape.insert(both.shape.begin(), 2);
    return both;
}

Array side_by_side(const std::vector<Array>& parts)
{
    Array result{{parts[0].shape[0], 0}, {}, ElementType::real};
    for (const Array& part : parts)
        result.shape[1] += part.shape[1];
    for (std::size_t row = 0; row < result.shape[0]; ++row)
        for (const Array& part : parts) {
            const auto begin = part.values.begin() + static_cast<std::ptrdiff_t>(row * part.shape[1]);
            result.values.insert(result.values.end(), begin, begin + static_cast<std::ptrdiff_t>(part.shape[1]));
        }
    return result;
}

/// The step that an array was found to be.
std::string step_of(const Diff& diff, const std::string& mine)
{
    const auto found = std::ranges::find(diff.matched, mine, &Found::mine);
    return found == diff.matched.end() ? "" : found->step;
}

/// The axes that an array was found to have, where the step has others.
std::string layout_of(const Diff& diff, const std::string& mine)
{
    const auto found = std::ranges::find(diff.matched, mine, &Found::mine);
    return found == diff.matched.end() ? "" : found->layout;
}

/// A post-norm layer of two heads over four tokens.
Recording layer_run()
{
    Numbers numbers(19);
    const EncoderLayerWeights weights = random_encoder_layer(numbers);
    Recorder recorder;
    encoder_layer(numbers.matrix(4, 6), weights, {.attention = {.heads = 2}}, Trace(recorder));
    return recorder.recording();
}

/// A post-norm layer over four tokens that are nearly the same: what each attends to is what it has.
Recording run_of_alike_tokens(std::size_t heads, double difference)
{
    Numbers numbers(23);
    const EncoderLayerWeights weights = random_encoder_layer(numbers);
    Matrix x = numbers.matrix(4, 6);
    for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t f = 0; f < 6; ++f)
            x(i, f) = x(0, f) * (1 + difference * static_cast<double>(i));
    Recorder recorder;
    encoder_layer(x, weights, {.attention = {.heads = heads}}, Trace(recorder));
    return recorder.recording();
}

} // namespace

TEST_CASE("heads that are apart are found by their numbers, wherever their axis stands", "[diff][matching]")
{
    const Recording reference = layer_run();
    const Array apart = of_heads(reference, "queries");
    const Diff result =
        diff::compare(reference, NamedArrays{{"q_first", apart}, {"q_second", permuted(apart, {1, 0, 2})}});
    CHECK(result.passed());
    CHECK(step_of(result, "q_first") == "self_attn.head.{h}.queries");
    CHECK(step_of(result, "q_second") == "self_attn.head.{h}.queries");
    CHECK(result.count(DiffVerdict::equal) == 4);
    CHECK(layout_of(result, "q_first") == "(h, n, d_k)");
    CHECK(layout_of(result, "q_second") == "(n, h, d_k)");
}

TEST_CASE("queries, keys and values in one array are found in whatever order they stand", "[diff][matching]")
{
    const Recording reference = layer_run();
    const Array q = value_of(reference, "self_attn.query"), k = value_of(reference, "self_attn.key"),
                v = value_of(reference, "self_attn.value");
    CHECK(step_of(diff::compare(reference, NamedArrays{{"c_attn", side_by_side({q, k, v})}}), "c_attn") ==
          "self_attn.query|key|value");
    CHECK(step_of(diff::compare(reference, NamedArrays{{"c_attn", side_by_side({v, q, k})}}), "c_attn") ==
          "self_attn.value|query|key");
}

TEST_CASE("what is called keys is never taken for the values, whatever its numbers are", "[diff][matching]")
{
    const Recording reference = layer_run();
    const Diff result = diff::compare(reference, NamedArrays{{"k", of_heads(reference, "values")},
                                                             {"v", of_heads(reference, "keys")},
                                                             {"out", value_of(reference, "norm2.output")}});
    CHECK(step_of(result, "k") != "self_attn.head.{h}.values");
    CHECK(step_of(result, "v") != "self_attn.head.{h}.keys");
}

TEST_CASE("an array with the numbers of another one is the same step, though a free one is as near", "[diff][matching]")
{
    const Recording reference = run_of_alike_tokens(2, 1e-5);
    const auto noisy = [](Array array) { // as after many layers in bfloat16
        for (double& value : array.values)
            value = rounded_to(NumberType::bfloat16, value + 0.01 * std::sin(1e4 * value));
        return array;
    };
    const auto mine = [&](const char* name) { return noisy(value_of(reference, std::string("self_attn.") + name)); };
    const Diff result =
        diff::compare(reference, NamedArrays{{"a", side_by_side({mine("query"), mine("key"), mine("value")})},
                                             {"b", mine("value")},
                                             {"c", noisy(of_heads(reference, "values"))}});
    CHECK(step_of(result, "b") == "self_attn.head.{h}.values");
    CHECK(step_of(result, "c") == "self_attn.head.{h}.values");
}

TEST_CASE("values that stand beside the queries and alone are no context, though that is nearer", "[diff][matching]")
{
    const Recording reference = run_of_alike_tokens(1, 1e-3);
    const Array context = value_of(reference, "self_attn.head.0.context");
    Array value = value_of(reference, "self_attn.value");
    for (std::size_t i = 0; i < value.size(); ++i) { // as after many layers in bfloat16
        value.values[i] += 0.6 * (context.values[i] - value.values[i]) + (i % 2 == 0 ? 2e-3 : -2e-3);
        value.values[i] = rounded_to(NumberType::bfloat16, value.values[i]);
    }
    const auto short_one = [&](const char* name) {
        Array array = value_of(reference, name);
        for (double& number : array.values)
            number = rounded_to(NumberType::bfloat16, number);
        return array;
    };
    const Array all = side_by_side({short_one("self_attn.query"), short_one("self_attn.key"), value});
    const Diff result = diff::compare(reference, NamedArrays{{"a_qkv", all}, {"b_v", value}, {"c_v", value}});
    CHECK(step_of(result, "a_qkv") == "self_attn.query|key|value");
    CHECK(step_of(result, "b_v") == "self_attn.head.0.values");
    CHECK(step_of(result, "c_v") != "self_attn.head.0.context");
    CHECK(step_of(result, "c_v") != "self_attn.merged");
}

TEST_CASE("an array that no step has is no wrong step where what would follow from it is right", "[diff][matching]")
{
    const Recording reference = layer_run();
    Array other = value_of(reference, "norm1.output");
    for (double& value : other.values)
        value = value * value + 1;
    const Diff result = diff::compare(reference, NamedArrays{{"tmp", other},
                                                             {"x1", value_of(reference, "norm1.output")},
                                                             {"y", value_of(reference, "norm2.output")}});
    CHECK(result.first_wrong() == nullptr);
    CHECK(result.passed());
    CHECK(result.extra == std::vector<std::string>{"tmp"});
}

TEST_CASE("an array that nearly has a step's numbers is not that step where what is right does not follow from it",
          "[diff][matching]")
{
    const Recording reference = layer_run();
    Array near = value_of(reference, "norm1.output");
    for (double& value : near.values)
        value *= 1 + 1e-4 * std::sin(1e4 * value);
    const NamedArrays mine{{"near", near}, {"q", value_of(reference, "self_attn.query")}};
    const Diff wrong = diff::compare(reference, mine); // nothing says that it is not
    CHECK(step_of(wrong, "near") == "norm1.output");
    CHECK_FALSE(wrong.passed());
    for (const char* right : {"feed_forward.hidden", "norm2.output"}) { // at once, and through steps that MINE lacks
        CAPTURE(right);
        NamedArrays with_user = mine;
        with_user["z"] = value_of(reference, right);
        const Diff result = diff::compare(reference, with_user);
        CHECK(step_of(result, "near").empty());
        CHECK(result.first_wrong() == nullptr);
        CHECK(result.extra == std::vector<std::string>{"near"});
    }
}

TEST_CASE("of tokens that are nearly the same, an array found by its numbers is right with its axes in any order",
          "[diff][matching]")
{
    constexpr std::size_t n = 3;
    constexpr double step = 0.007, noise = 0.014;
    Array x{{n, n, 2}, {}, ElementType::real}, noisy = x, turned = x;
    for (std::size_t i = 0; i < n * n; ++i)
        for (const double feature : {0.5, -0.45})
            x.values.push_back(feature * (1 + step * static_cast<double>(i)));
    ByFormulas program;
    program.given("x", x).computed("doubled", "x + x").computed("scaled", "0.9 * doubled");
    program.computed("output", "scaled * scaled");
    noisy.values = named(program.recording, "doubled").value.values; // as after some layers in bfloat16
    for (std::size_t i = 0; i < noisy.size(); ++i)
        noisy.values[i] = rounded_to(NumberType::bfloat16, noisy.values[i] + (i % 4 < 2 ? noise : -noise));
    for (std::size_t i = 0; i < noisy.size(); ++i) // sequence first: token i / 2 stands elsewhere
        turned.values.push_back(
            rounded_to(NumberType::bfloat16, 0.9 * noisy.values[(i / 2 % n * n + i / 2 / n) * 2 + i % 2]));
    const DiffOptions options{.type = NumberType::bfloat16};
    const Diff result = diff::compare(program.recording, NamedArrays{{"a", noisy}, {"b", turned}}, options);
    CHECK(step_of(result, "b") == "scaled");
    CHECK(result.passed());
    std::ranges::rotate(turned.values, turned.values.begin() + 2); // no order of the axes
    CHECK_FALSE(diff::compare(program.recording, NamedArrays{{"a", noisy}, {"b", turned}}, options).passed());
}

TEST_CASE("a wrong array is guessed to be the step that others follow from, though another one is nearer",
          "[diff][matching]")
{
    ByFormulas program, wrong;
    const Array x = real({2, 3}, {0.5, 1.1, 1.9, 2.3, 2.9, 3.7});
    program.given("x", x).computed("first", "x * 2").computed("second", "sin(x)");
    wrong.given("x", x).computed("second", "x * 1.8");
    for (ByFormulas* one : {&program, &wrong})
        one->computed("third", "second * second + x").computed("output", "third @ x.T");
    const Diff result = diff::compare(program.recording, NamedArrays{{"t", value_of(wrong.recording, "second")},
                                                                     {"u", value_of(wrong.recording, "third")},
                                                                     {"y", value_of(wrong.recording, "output")}});
    CHECK(step_of(result, "t") == "second");
    CHECK(step_of(result, "u") == "third");
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->mine == "t");
    CHECK(result.count(DiffVerdict::bug) == 1);
}

TEST_CASE("an array is found by its numbers though some rows of it are NaN", "[diff][matching]")
{
    const Recording reference = layer_run();
    Array context = of_heads(reference, "context");
    std::fill(context.values.begin(), context.values.begin() + static_cast<std::ptrdiff_t>(context.shape[2]), NAN);
    const NamedArrays mine{{"z", context}, {"y", value_of(reference, "norm2.output")}};
    CHECK(step_of(diff::compare(reference, mine), "z") == "self_attn.head.{h}.context");
    NamedArrays most = mine; // what is NaN for the most part tells nothing
    std::fill(most["z"].values.begin() + 1, most["z"].values.end(), NAN);
    CHECK(step_of(diff::compare(reference, most), "z").empty());
}

TEST_CASE("what is named after a layer is guessed to be a step in a layer", "[diff][matching]")
{
    const Recording reference = recording_of(run_stack);
    Array wrong = value_of(reference, "norm.normalized");
    for (double& value : wrong.values)
        value = 1.3 * value + 0.1;
    const auto guessed = [&](const char* name) {
        return step_of(diff::compare(reference, NamedArrays{{name, wrong},
                                                            {"q", value_of(reference, "layers.0.self_attn.query")}}),
                       name);
    };
    CHECK_FALSE(guessed("normalized").starts_with("layers."));
    for (const char* name : {"layers_1_normalized", "block.1.normalized"})
        CHECK(guessed(name).starts_with("layers.1."));
}

TEST_CASE("scores less their largest are known as the scores, or as no step beside these", "[diff][matching][effect]")
{
    const Recording reference = layer_run();
    const Array scaled = of_heads(reference, "scaled");
    Array shifted = scaled;
    for (std::size_t row = 0; row < shifted.size(); row += 4) {
        const auto begin = shifted.values.begin() + static_cast<std::ptrdiff_t>(row);
        const double largest = *std::max_element(begin, begin + 4);
        std::transform(begin, begin + 4, begin, [&](double score) { return score - largest; });
    }
    const Diff alone = diff::compare(reference, NamedArrays{{"m", shifted}, {"q", of_heads(reference, "queries")}});
    CHECK(step_of(alone, "m") == "self_attn.head.{h}.scaled");
    CHECK(alone.count(DiffVerdict::equal) == 4);
    CHECK(alone.passed());

    const Diff beside = diff::compare(reference, NamedArrays{{"m", shifted}, {"s", scaled}});
    CHECK(step_of(beside, "s") == "self_attn.head.{h}.scaled");
    CHECK(step_of(beside, "m") == "");
    CHECK(beside.first_different() == nullptr);

    shifted.values[5] += 0.25; // a shift of one number has an effect
    CHECK_FALSE(diff::compare(reference, NamedArrays{{"m", shifted}, {"q", of_heads(reference, "queries")}}).passed());
}

TEST_CASE("masked scores that are no step's are not guessed to be a result of as many numbers", "[diff][matching]")
{
    const Recording reference = recording_of([](const Trace& trace) {
        Numbers numbers(24);
        const Matrix square = numbers.matrix(4, 4);
        scaled_dot_product_attention(square, square, square, {.causal = Causal{}}, trace);
    });
    Array shifted = value_of(reference, "masked");
    for (std::size_t i = 0; i < shifted.size(); ++i)
        shifted.values[i] *= 1 + 0.1 * static_cast<double>(i);
    const NamedArrays right{{"w", value_of(reference, "weights")}, {"m", shifted}};
    const Diff result = diff::compare(reference, right);
    CAPTURE(step_of(result, "m"));
    CHECK(step_of(result, "m") == "");
    CHECK(result.first_wrong() == nullptr);
}

TEST_CASE("scores are not the masked ones, though these are nearer where they are not masked", "[diff][matching]")
{
    ByFormulas program;
    program.given("scores", real({2, 2}, {3.39739728, -13.69819253, 1.05225771, -9.27658815}))
        .computed("scaled", "scores / 8")
        .computed("masked", "where(reshape(arange(4), 2, 2) < 1, scaled, -inf)")
        .computed("weights", "softmax(masked)");
    const NamedArrays bfloat16{{"att", real({2, 2}, {0.42578125, -1.703125, 0.13183594, -1.15625})},
                               {"probs", value_of(program.recording, "weights")}};
    const Diff result = diff::compare(program.recording, bfloat16, {.type = NumberType::bfloat16});
    CHECK(step_of(result, "att") == "scaled");
    CHECK(result.first_different() == nullptr);
}

TEST_CASE("what has a step's name and the numbers of a later one beside it is that one", "[diff][matching]")
{
    const Recording reference = layer_run();
    NamedArrays mine{{"self_attn.head.0.scores", value_of(reference, "self_attn.head.0.scaled")},
                     {"norm2.output", value_of(reference, "norm2.output")}};
    const Diff renamed = diff::compare(reference, mine);
    CHECK(renamed.passed());
    CHECK(step_of(renamed, "self_attn.head.0.scores") == "self_attn.head.0.scaled");
    // Also where it is the only array with a name of its own, and as large as the result.
    Recorder recorder;
    const Matrix square = Numbers(23).matrix(3, 3);
    scaled_dot_product_attention(square, square, square, {.causal = Causal{}}, Trace(recorder));
    Array masked = value_of(recorder.recording(), "masked");
    std::ranges::replace(masked.values, -INFINITY, -1e30);
    CHECK(diff::compare(recorder.recording(),
                        NamedArrays{{"scores", masked}, {"output", value_of(recorder.recording(), "context")}})
              .first_wrong() == nullptr);
    // An earlier one's numbers are a step that was left out.
    mine = {{"self_attn.head.0.scaled", value_of(reference, "self_attn.head.0.scores")}};
    CHECK(diff::compare(reference, mine).first_wrong() != nullptr);
}

TEST_CASE("a map to a step that the reference does not have is refused, with names like it", "[diff][names]")
{
    const Recording reference = layer_run();
    const NamedArrays mine{{"att", value_of(reference, "self_attn.query")}};
    CHECK_THROWS_WITH(diff::compare(reference, mine, {.names = {{"att", "self_attn.qeury"}}}),
                      ContainsSubstring("no step self_attn.qeury") && ContainsSubstring("self_attn.query"));
}

TEST_CASE("a result of nothing but NaN is found by its place", "[diff]")
{
    const Recording reference = recording_of([](const Trace& trace) {
        Numbers numbers(47);
        scaled_dot_product_attention(numbers.matrix(4, 3), numbers.matrix(5, 3), numbers.matrix(5, 2), {}, trace);
    });
    const Diff result = diff::compare(reference, {{"mine", {{4, 2}, std::vector<double>(8, NAN)}}});
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->step->path == "context");
    CHECK(result.first_wrong()->message.starts_with("is NaN in 8 of its 8 numbers"));
}
