// What a comparison that found nothing wrong can tell, and what it can't.

#include "attn/diff/diff.hpp"

#include "runs.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::diff;
using namespace attn::files;
using namespace attn::mistakes;
using namespace attn::test;

namespace {

/// Six post-norm layers of width 32 over ten tokens.
void run_deep(const Trace& trace)
{
    Numbers numbers(31);
    const std::size_t width = 32;
    EncoderWeights weights;
    for (int layer = 0; layer < 6; ++layer)
        weights.layers.push_back(random_encoder_layer(numbers, width, 48));
    const Tensor3 x = numbers.tensor3(2, 10, width);
    EncoderOptions options;
    options.attention.heads = 4;
    options.feed_forward.activation = Activation::gelu;
    encoder(x, weights, options, trace);
}

/// A post-norm layer whose norms have large inputs: epsilon changes them by little.
Run layer_with(double epsilon)
{
    return [epsilon](const Trace& trace) {
        Numbers numbers(32);
        const std::size_t width = 16;
        const EncoderLayerWeights weights = random_encoder_layer(numbers, width, 24);
        const Tensor3 x = 2 * numbers.tensor3(3, 10, width);
        EncoderOptions options;
        options.attention.heads = 2;
        options.norm.epsilon = epsilon;
        encoder_layer(x, weights, options, trace);
    };
}

Recording in_type(const Run& run, Precision precision)
{
    RoundSteps rounding(precision);
    return recording_of(run, rounding);
}

NamedArrays result_of(const Recording& recording, Precision precision)
{
    NamedArrays all = rounded(recording, precision);
    return {{"output", all.at("output")}};
}

} // namespace

TEST_CASE("in double the result alone shows nearly every mistake", "[diff]")
{
    const Recording reference = recording_of(run_stack);
    Recording mine = reference;
    for (double& value : mine.steps.back().value.values)
        value *= 1 + 0x1p-52;
    const Power power = power_of(diff::compare(reference, {{"output", mine.steps.back().value}}));
    CHECK(power.possible > 30);
    CHECK(power.seen == power.possible);
    CHECK(power.decides());
}

TEST_CASE("in a short type the result alone shows less than all arrays do, and those to save show more", "[diff]")
{
    const Recording reference = recording_of(run_deep);
    const Recording mine = in_type(run_deep, Precision::bfloat16);
    NamedArrays some = result_of(mine, Precision::bfloat16);
    const Diff alone = diff::compare(reference, some),
               all = diff::compare(reference, rounded(mine, Precision::bfloat16));
    REQUIRE(alone.passed());
    REQUIRE(all.passed());
    const Power from_result = power_of(alone), from_all = power_of(all);
    CHECK(from_all.decides());
    CHECK(from_all.nearer.empty());
    CHECK(from_all.times_off > 0);
    CHECK(from_all.times_off <= 1);
    REQUIRE(!from_result.save.empty());
    const auto share = [](const Power& power) {
        return static_cast<double>(power.seen) / static_cast<double>(power.possible);
    };
    CHECK(share(from_all) > share(from_result));
    const NamedArrays every = rounded(mine, Precision::bfloat16);
    for (const std::string& path : from_result.save)
        some.emplace(path, every.at(path));
    CHECK(power_of(diff::compare(reference, some)).seen > from_result.seen);
}

TEST_CASE("an epsilon that is none of the well-known ones is undecided in float16, by a norm and not by the result",
          "[diff]")
{
    const auto run_with = [](double epsilon) {
        return [epsilon](const Trace& trace) {
            Numbers numbers(33);
            const EncoderLayerWeights weights = random_encoder_layer(numbers, 32, 48);
            EncoderOptions options{.placement = NormPlacement::pre};
            options.attention.heads = 4;
            options.norm.epsilon = epsilon;
            encoder_layer(numbers.tensor3(2, 10, 32), weights, options, trace);
        };
    };
    const auto power_with = [&](double epsilon, const std::vector<std::string>& saved) {
        const NamedArrays all = rounded(in_type(run_with(epsilon), Precision::float16), Precision::float16);
        NamedArrays mine;
        for (const std::string& name : saved)
            mine.emplace(name, all.at(name));
        const Recording reference = recording_of(run_with(1e-5));
        const Diff result = diff::compare(reference, std::move(mine));
        REQUIRE(result.passed());
        return power_of(result);
    };
    const std::vector<std::string> modules{"x", "norm1.output", "self_attn.output", "norm2.output", "output"};
    CHECK(power_with(1e-5, modules).decides());
    CHECK(power_with(6e-3, {"x", "output"}).times_off <= 1);
    const Power wrong = power_with(6e-3, modules);
    CHECK_FALSE(wrong.decides());
    CHECK(wrong.times_off > 1);
    CHECK(wrong.off_in == "norm1.output");
}

TEST_CASE("a mistake within what roundings can do, and nearer to MINE's numbers, is told", "[diff]")
{
    const Recording reference = recording_of(layer_with(1e-12));
    const auto power_with = [&](double epsilon) {
        const NamedArrays mine = rounded(in_type(layer_with(epsilon), Precision::float32), Precision::float32);
        const Diff result = diff::compare(reference, mine);
        REQUIRE(result.passed());
        return power_of(result);
    };
    CHECK(power_with(1e-12).decides());
    CHECK(power_with(1e-12).nearer.empty());
    const Power wrong = power_with(1e-3);
    CHECK_FALSE(wrong.decides());
    REQUIRE(!wrong.nearer.empty());
    CHECK(wrong.nearer.front().pitfall->id == "norm_epsilon_value");
}

TEST_CASE("power says at which sizes it looked", "[diff]")
{
    const Recording reference = recording_of(run_heads);
    NamedArrays mine = arrays_of(reference);
    for (double& value : mine.at("output").values)
        value *= 1 + 0x1p-52;
    const AttentionSizes sizes = power_of(diff::compare(reference, {{"output", mine.at("output")}})).sizes;
    CHECK(sizes.queries == 4);
    CHECK(sizes.keys == 5);
    CHECK(sizes.features == named(reference, "head.0.keys").value.shape.back());
    CHECK(sizes.heads == 2);
}
