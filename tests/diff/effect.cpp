// What differs before a softmax and not after it.

#include "attn/diff/diff.hpp"

#include "generators.hpp"
#include "test.hpp"

#include "attn/attention/mask.hpp"
#include "attn/attention/weigh.hpp"
#include "attn/formula/scope.hpp"
#include "attn/trace_io/recorder.hpp"

#include <cmath>
#include <functional>

using namespace attn;
using namespace attn::test;

namespace {

/// Attention of four queries over four keys, of which each sees those up to its own place.
Recording causal_attention()
{
    Numbers numbers(31);
    const Matrix queries = numbers.matrix(4, 3), keys = numbers.matrix(4, 3), values = numbers.matrix(4, 2);
    Recorder recorder;
    scaled_dot_product_attention(queries, keys, values, {}, {}, {.causal = Causal::bottom_right}, Trace(recorder));
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
    return diff(reference, mine);
}

DiffVerdict verdict_of(const Diff& diff, std::string_view path)
{
    for (const StepDiff& step : diff.steps)
        if (step.step->path == path)
            return step.verdict;
    throw std::out_of_range(std::string(path));
}

} // namespace

TEST_CASE("a fill that softmax makes zero differs without effect", "[diff][effect]")
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

TEST_CASE("a fill that leaves a masked key a share is wrong", "[diff][effect]")
{
    const Diff result = diff_after("masked", [](std::size_t, double value) { return std::isinf(value) ? -10 : value; });
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->step->path == "masked");
}

TEST_CASE("scores whose rows are shifted differ without effect, shifted columns do not", "[diff][effect]")
{
    const auto shifted_by = [](bool rows) {
        return diff_after("scaled", [rows](std::size_t i, double value) {
            return value + 0.5 * static_cast<double>(1 + (rows ? i / 4 : i % 4));
        });
    };
    // The masked scores are the reference's in both: they do not follow from the shifted ones.
    CHECK(verdict_of(shifted_by(true), "scaled") == DiffVerdict::no_effect);
    CHECK(verdict_of(shifted_by(false), "scaled") == DiffVerdict::bug);
}

TEST_CASE("what has no effect hides no mistake after it", "[diff][effect]")
{
    const Recording reference = causal_attention();
    NamedArrays mine = numbers_of(reference);
    for (double& value : mine.at("masked").values)
        value = std::isinf(value) ? -1e9 : value;
    mine.at("context").values[0] += 0.25;
    const Diff result = diff(reference, mine);
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->step->path == "context");
}

TEST_CASE("a well-known fill has its name though it has no effect", "[diff][effect][diagnose]")
{
    const auto names = [](double fill) {
        std::vector<std::string_view> ids;
        for (const Diagnosis& diagnosis : diagnose(
                 diff_after("masked", [&](std::size_t, double value) { return std::isinf(value) ? fill : value; })))
            ids.push_back(diagnosis.pitfall->id);
        return ids;
    };
    CHECK(names(-1e4) == std::vector<std::string_view>{"mask_finite"});
    CHECK(names(-1e9).empty());
}

TEST_CASE("a difference in what no softmax follows has an effect", "[diff][effect]")
{
    CHECK(verdict_of(diff_after("values", [](std::size_t, double value) { return value + 1; }), "values") ==
          DiffVerdict::bug);
    CHECK(verdict_of(diff_after("weights", [](std::size_t, double value) { return value / 2; }), "weights") ==
          DiffVerdict::bug);
}
