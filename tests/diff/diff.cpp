#include "attn/diff/diff.hpp"

#include "layers/examples.hpp"
#include "sources.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"
#include "attn/what_if/answers.hpp"
#include "attn/trace_io/npy.hpp"
#include "attn/trace_io/npz.hpp"

#include <cmath>
#include <fstream>
#include <functional>
#include <set>

using namespace attn;
using namespace attn::test;

namespace {

using Run = std::function<void(const Trace&)>;

// ------------------------------------------------------------------------------------------------ runs

Mask first_keys_only(std::size_t n, std::size_t m)
{
    Mask mask(Mask::shape_type{n, m}, true);
    for (std::size_t i = 0; i < n; ++i)
        mask(i, m - 1) = i + 1 == n;
    return mask;
}

/// A post-norm layer of two heads over four tokens, with a mask.
void run_layer(const Trace& trace)
{
    Numbers numbers(11);
    const EncoderLayerWeights weights = random_encoder_layer(numbers);
    const Matrix x = numbers.matrix(4, 6);
    EncoderOptions options;
    options.attention.heads = 2;
    encoder_layer(x, first_keys_only(4, 4), weights, options, trace);
}

/// Two pre-norm layers of three heads over a batch, with GELU and rotary positions.
void run_stack(const Trace& trace)
{
    Numbers numbers(12);
    const EncoderWeights weights{{random_encoder_layer(numbers), random_encoder_layer(numbers)},
                                 random_norm(numbers, 6)};
    const Tensor3 x = numbers.tensor3(2, 5, 6);
    EncoderOptions options;
    options.attention.heads = 3;
    options.attention.positions = HeadPositions::rotary;
    options.placement = NormPlacement::pre;
    options.feed_forward.activation = Activation::gelu;
    encoder(x, {}, weights, options, trace);
}

/// One attention of two heads with a memory of another length.
void run_heads(const Trace& trace)
{
    Numbers numbers(13);
    const MultiHeadWeights weights = random_heads(numbers);
    const Tensor3 x = numbers.tensor3(3, 4, 6);
    const Tensor3 memory = numbers.tensor3(3, 5, 6);
    multi_head_attention(x, memory, {}, {}, weights, {.heads = 2}, trace);
}

Recording recording_of(const Run& run)
{
    Recorder recorder;
    run(Trace(recorder));
    return recorder.recording();
}

/// What is recorded of a run after a listener that answers.
Recording recording_of(const Run& run, Listener& answering)
{
    Recorder recorder;
    Listeners listeners({&answering, &recorder});
    run(Trace(listeners));
    return recorder.recording();
}

NamedArrays arrays_of(const Recording& recording)
{
    NamedArrays arrays;
    for (const Step& step : recording.steps)
        arrays.emplace(step.path, step.value);
    for (const Alias& alias : recording.aliases)
        arrays.emplace(alias.path, arrays.at(alias.target));
    return arrays;
}

/// The step of that path, or that an alias of that path means.
const Step& named(const Recording& recording, const std::string& path)
{
    return recording.steps.at(StepNames(recording).find(path).value());
}

const StepDiff& about(const Diff& diff, std::string_view path)
{
    for (const StepDiff& step : diff.steps)
        if (step.step->path == path)
            return step;
    throw std::out_of_range(std::string(path));
}

/// Changes one number of one step, and lets the run go on with it.
class Planted final : public Listener {
public:
    Planted(std::string path, double change) : path_(std::move(path)), change_(change) {}

private:
    std::optional<Array> on_step(const Step& step) override
    {
        if (step.path != path_)
            return std::nullopt;
        Array changed = step.value;
        for (double& value : changed.values)
            if (std::isfinite(value)) {
                value += change_;
                break;
            }
        return changed;
    }

    std::string path_;
    double change_;
};

NamedArrays rounded(const Recording& steps, Precision precision)
{
    NamedArrays arrays = arrays_of(steps);
    for (auto& [name, array] : arrays)
        if (array.type == ElementType::real)
            for (double& value : array.values)
                value = rounded_to(precision, value);
    return arrays;
}

/// True where a change of one step changes a later one by more than that: what ReLU or a mask leaves out changes none.
bool follows(const std::string& path, const Recording& mine, const Recording& reference, double least)
{
    bool is_later = false, differs = false;
    for (std::size_t i = 0; i < reference.steps.size(); ++i) {
        for (std::size_t j = 0; is_later && j < reference.steps[i].value.size(); ++j) {
            const double expected = reference.steps[i].value.values[j], number = mine.steps[i].value.values[j];
            differs = differs || std::abs(number - expected) > least * (1 + std::abs(expected));
        }
        is_later = is_later || reference.steps[i].path == path;
    }
    return differs;
}

const std::vector<Run> runs{run_layer, run_stack, run_heads};

// ------------------------------------------------------------------------------------------------ arrays

Array transposed(const Array& matrix)
{
    Array result{{matrix.shape[1], matrix.shape[0]}, {}, matrix.type};
    for (std::size_t j = 0; j < matrix.shape[1]; ++j)
        for (std::size_t i = 0; i < matrix.shape[0]; ++i)
            result.values.push_back(matrix.values[i * matrix.shape[1] + j]);
    return result;
}

/// (a, b, …) as (b, a, …).
Array first_axes_swapped(const Array& array)
{
    Array result = array;
    std::swap(result.shape[0], result.shape[1]);
    std::size_t inner = 1;
    for (std::size_t axis = 2; axis < array.rank(); ++axis)
        inner *= array.shape[axis];
    for (std::size_t i = 0; i < array.shape[0]; ++i)
        for (std::size_t j = 0; j < array.shape[1]; ++j)
            for (std::size_t k = 0; k < inner; ++k)
                result.values[(j * array.shape[0] + i) * inner + k] =
                    array.values[(i * array.shape[1] + j) * inner + k];
    return result;
}

/// Arrays of one shape behind each other along a new first axis.
Array stacked(const std::vector<Array>& arrays)
{
    Array result{arrays.front().shape, {}, arrays.front().type};
    result.shape.insert(result.shape.begin(), arrays.size());
    for (const Array& array : arrays)
        result.values.insert(result.values.end(), array.values.begin(), array.values.end());
    return result;
}

/// The arrays of all heads as (b, h, …), with one sequence in the batch unless it is one.
Array packed_heads(const Recording& steps, const std::string& scope, const std::string& name, std::size_t heads)
{
    std::vector<Array> arrays;
    for (std::size_t head = 0; head < heads; ++head)
        arrays.push_back(named(steps, scope + "head." + std::to_string(head) + "." + name).value);
    Array result = stacked(arrays);
    if (arrays.front().rank() == 3)
        return first_axes_swapped(result);
    result.shape.insert(result.shape.begin(), 1);
    return result;
}

/// What the layer's trace gives with one array replaced.
Diff with_replaced(const Recording& reference, const std::string& path, Array array)
{
    NamedArrays mine = arrays_of(reference);
    mine[path] = std::move(array);
    return diff(reference, std::move(mine));
}

} // namespace

// -------------------------------------------------------------------------------------------------------- same and noise

TEST_CASE("a trace differs in nothing from itself", "[diff]")
{
    for (const Run& run : runs) {
        const Recording reference = recording_of(run);
        const Diff same = diff(reference, arrays_of(reference));
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
        const Diff result = diff(reference, arrays_of(mine));
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
            for (const Diff& result : {diff(reference, rounded(recording_of(run, rounding), precision)),
                                       diff(reference, rounded(reference, precision))}) {
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
        const Diff result = diff(reference, few);
        CAPTURE(name_of(precision));
        for (const StepDiff& step : result.steps) {
            CAPTURE(step.step->path, step.message, step.distance.absolute, step.distance.tolerance);
            CHECK(step.passed());
        }
    }
}

TEST_CASE("a difference of one part in ten thousand is no noise of float32", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = rounded(reference, Precision::float32);
    double& value = mine["self_attn.head.1.scaled"].values[2];
    value = rounded_to(Precision::float32, value * 1.0001);
    const Diff result = diff(reference, std::move(mine));
    CHECK(result.type == NumberType::float32);
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->step->path == "self_attn.head.1.scaled");
    CHECK(result.first_wrong()->place == "head 1, query 0, key 2");
}

TEST_CASE("whole numbers prove no type, so that a wrong one is no noise", "[diff]")
{
    Recording reference;
    reference.steps.resize(1);
    reference.steps[0].path = "scores";
    reference.steps[0].value = {{3}, {250, 3, 4}, ElementType::real};
    const Diff result = diff(reference, NamedArrays{{"scores", {{3}, {251, 3, 4}, ElementType::real}}});
    CHECK(result.type == NumberType::float64);
    CHECK(result.count(DiffVerdict::bug) == 1);
}

TEST_CASE("where only some arrays are float32, the hint says so and the type is float64 unless given", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = rounded(reference, Precision::float32);
    mine["norm1.mean"] = named(reference, "norm1.mean").value;
    const Diff seen = diff(reference, mine);
    CHECK(seen.type == NumberType::float64);
    CHECK_THAT(seen.hint, ContainsSubstring("--type float32"));
    CHECK_FALSE(seen.passed());
    CHECK(diff(reference, mine, {.type = NumberType::float32}).passed());
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
    const Diff result = diff(reference, mine);
    CHECK(result.type == NumberType::float32);
    CHECK_FALSE(result.passed());
    CHECK_THAT(result.hint, ContainsSubstring("--type float16"));
    CHECK(diff(reference, mine, {.type = NumberType::float16}).passed());
    Planted planted("layers.0.self_attn.head.0.scaled", 0.5);
    CHECK(diff(reference, rounded(recording_of(run_stack, planted), Precision::float32)).hint.empty());
}

TEST_CASE("a tolerance that is given replaces the measured one", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = arrays_of(reference);
    mine["output"].values[0] += 1e-3;
    CHECK_FALSE(diff(reference, mine).passed());
    CHECK(diff(reference, mine, {.atol = 2e-3}).passed());
    CHECK_FALSE(diff(reference, mine, {.atol = 5e-4}).passed());
    mine = rounded(reference, Precision::float32);
    CHECK(diff(reference, mine).passed());
    CHECK_FALSE(diff(reference, mine, {.rtol = 1e-12}).passed());
    CHECK(diff(reference, mine, {.atol = 1e-6, .rtol = 1e-6}).passed());
}

// -------------------------------------------------------------------------------------------------------- no noise

namespace {

/// A recording of given arrays and of what formulas make of them, as a stranger's program writes it.
class ByFormulas {
public:
    ByFormulas& given(const std::string& path, Array value)
    {
        recording.steps.push_back({path, "", {}, "", {}, std::move(value)});
        return *this;
    }

    ByFormulas& computed(const std::string& path, const std::string& formula)
    {
        const StepNames names(recording);
        const Lookup lookup = [&](std::string_view name) {
            const auto step = names.find(name);
            return step ? &recording.steps[*step].value : nullptr;
        };
        recording.steps.push_back({path, formula, {}, "", {}, evaluate(formula, lookup).value});
        return *this;
    }

    Recording recording;
};

Array real(Shape shape, std::vector<double> values) { return {std::move(shape), std::move(values), ElementType::real}; }

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
            const Diff alone = diff(reference, NamedArrays{{path, named(ignoring, path).value}}, {.type = type});
            CHECK_FALSE(alone.passed());
            CHECK(diff(reference, NamedArrays{{path, named(reference, path).value}}, {.type = type}).passed());
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
            CHECK_FALSE(diff(reference, NamedArrays{{path, array}}).passed());
        }
    Array moved = named(reference, "lengths").value;
    moved.values[0] += 0x1p-22;
    CHECK_FALSE(diff(reference, NamedArrays{{"lengths", moved}}, {.type = NumberType::float32}).passed());
}

TEST_CASE("what jumps from one whole number to another is not measured as noise", "[diff][exact]")
{
    ByFormulas program;
    program.given("x", real({4}, {0.1, 0.2, 0.3, 0.4}))
        .given("y", real({4}, {0.1, 0.2, 0.3, 0.5}))
        .computed("changed", "sum(where(abs(x - y) > 0, 1, 0))");
    const Recording& reference = program.recording;
    REQUIRE(named(reference, "changed").value.values == std::vector<double>{1});
    CHECK_FALSE(diff(reference, NamedArrays{{"changed", real({}, {3})}}, {.type = NumberType::float32}).passed());
}

TEST_CASE("an integer or boolean step is compared exactly", "[diff][exact]")
{
    Recording reference = padded_averages({2, 3, 1});
    for (Step& step : reference.steps)
        if (step.path == "lengths" || step.path == "count" || step.path == "places")
            step.value.type = ElementType::integer;
    NamedArrays mine = arrays_of(reference);
    CHECK(diff(reference, mine, {.type = NumberType::bfloat16}).passed());
    mine["count"].values[1] += 0x1p-8;
    const Diff result = diff(reference, mine, {.type = NumberType::bfloat16});
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->step->path == "count");
}

TEST_CASE("zeros, ones, powers of two and small whole numbers prove no short type", "[diff][type]")
{
    const Recording reference = recording_of(run_layer);
    for (const double number : {0.0, 1.0, 0.25, 3.0}) {
        Array output = named(reference, "output").value;
        std::ranges::fill(output.values, number);
        const Diff result = diff(reference, NamedArrays{{"output", output}});
        CHECK(result.type == NumberType::float64);
        CHECK_FALSE(result.passed());
    }
    Array output = named(reference, "output").value;
    for (double& value : output.values)
        value = rounded_to(NumberType::bfloat16, value);
    CHECK(diff(reference, NamedArrays{{"output", output}}).type == NumberType::bfloat16);
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
    const Diff both = diff(program.recording, mine);
    CHECK(both.type == NumberType::float64);
    CHECK(both.passed());
    CHECK_THAT(both.hint, ContainsSubstring("x is the reference's rounded to float32"));
    mine.erase("x");
    const Diff alone = diff(program.recording, mine);
    CHECK(alone.passed());
    CHECK_THAT(alone.hint, ContainsSubstring("rounded to float32"));
    mine["y"].values[0] += 1e-7;
    CHECK_FALSE(diff(program.recording, mine).passed());
}

// -------------------------------------------------------------------------------------------------------- aliases

namespace {

/// A norm of a sum, whose input is the sum under another name.
Recording with_alias()
{
    ByFormulas program;
    program.given("x", real({3}, {0.5, -1.25, 2.7}))
        .computed("residual1", "x * 1.1")
        .computed("norm1.mean", "mean(residual1)")
        .computed("norm1.output", "residual1 - mean(residual1)");
    program.recording.aliases.push_back({"norm1.x", "residual1"});
    program.recording.steps[3].formula = "x - mean";
    return program.recording;
}

} // namespace

TEST_CASE("an array under an alias's path is the step that the alias means, once", "[diff][aliases]")
{
    const Recording reference = with_alias();
    NamedArrays mine = arrays_of(reference);
    mine.extract("residual1");
    mine["norm1.x"] = named(reference, "residual1").value;
    const Diff renamed = diff(reference, mine);
    CHECK(renamed.passed());
    CHECK(renamed.missing.empty());
    CHECK(renamed.extra.empty());
    CHECK(about(renamed, "residual1").mine == "norm1.x");
    mine["residual1"] = mine["norm1.x"];
    CHECK(diff(reference, mine).steps.size() == reference.steps.size());
    const Diff mapped = diff(reference, {{"sum", mine["residual1"]}}, {.names = {{"sum", "norm1.x"}}});
    CHECK(mapped.passed());
    CHECK(mapped.missing.size() == reference.steps.size() - 1);
}

TEST_CASE("an alias that MINE has another array of is wrong by itself, and what uses it inherits that",
          "[diff][aliases]")
{
    const Recording reference = with_alias();
    NamedArrays mine = arrays_of(reference);
    mine["norm1.x"] = named(reference, "x").value;
    mine["norm1.output"] = mine["norm1.x"];
    for (double& value : mine["norm1.output"].values)
        value -= named(reference, "norm1.mean").value.values.front();
    const Diff result = diff(reference, mine);
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->step->path == "norm1.x");
    CHECK(result.first_wrong()->step->formula == "residual1");
    CHECK(result.count(DiffVerdict::bug) == 1);
    CHECK(about(result, "norm1.output").verdict == DiffVerdict::inherited);
    CHECK(about(result, "residual1").verdict == DiffVerdict::equal);
}

// -------------------------------------------------------------------------------------------------------- bugs

TEST_CASE("a mistake in any step is the first wrong one, and what follows inherits it", "[diff]")
{
    for (const Run& run : runs) {
        const Recording reference = recording_of(run);
        for (const Step& step : reference.steps) {
            if (step.formula.empty() || step.value.type != ElementType::real)
                continue;
            CAPTURE(step.path);
            Planted planted(step.path, 1e-3);
            const Recording mine = recording_of(run, planted);
            const Diff result = diff(reference, arrays_of(mine));
            CHECK_FALSE(result.passed());
            REQUIRE(result.first_wrong() != nullptr);
            CHECK(result.first_wrong()->step->path == step.path);
            CHECK(result.first_wrong() == result.first_different());
            CHECK(result.count(DiffVerdict::bug) + result.count(DiffVerdict::layout) == 1);
            const bool is_inherited = result.count(DiffVerdict::inherited) > 0;
            CHECK((is_inherited || !follows(step.path, mine, reference, 1e-9)));
            CHECK((!is_inherited || follows(step.path, mine, reference, 0)));
        }
    }
}

TEST_CASE("a mistake in any step is found in a float32 run too", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    for (const Step& step : reference.steps) {
        if (step.formula.empty() || step.value.type != ElementType::real)
            continue;
        CAPTURE(step.path);
        Planted planted(step.path, 0x1p-8);
        RoundSteps rounding(Precision::float32);
        Listeners both({&planted, &rounding});
        const Diff result = diff(reference, rounded(recording_of(run_layer, both), Precision::float32));
        CHECK(result.type == NumberType::float32);
        REQUIRE(result.first_wrong() != nullptr);
        CHECK(result.first_wrong()->step->path == step.path);
        CHECK(result.count(DiffVerdict::bug) == 1);
    }
}

TEST_CASE("two mistakes are two bugs, though the second one's operands are wrong already", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    Planted first("self_attn.head.0.scores", 0.5), second("feed_forward.hidden", 0.25);
    Listeners both({&first, &second});
    const Diff result = diff(reference, arrays_of(recording_of(run_layer, both)));
    CHECK(result.count(DiffVerdict::bug) == 2);
    CHECK(about(result, "self_attn.head.0.scores").verdict == DiffVerdict::bug);
    CHECK(about(result, "self_attn.head.0.weights").verdict == DiffVerdict::inherited);
    CHECK(about(result, "self_attn.head.1.weights").verdict == DiffVerdict::equal);
    CHECK(about(result, "feed_forward.hidden").verdict == DiffVerdict::bug);
    CHECK(about(result, "norm2.output").verdict == DiffVerdict::inherited);
}

TEST_CASE("an operand that MINE does not have is computed from what it has", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    Planted planted("self_attn.query", 0.5);
    NamedArrays mine = arrays_of(recording_of(run_layer, planted));
    for (const char* gone :
         {"self_attn.head.0.queries", "self_attn.head.0.scores", "self_attn.head.0.scaled", "self_attn.head.0.masked"})
        mine.erase(gone);
    const Diff result = diff(reference, std::move(mine));
    CHECK(result.first_wrong()->step->path == "self_attn.query");
    CHECK(about(result, "self_attn.head.0.weights").verdict == DiffVerdict::inherited);
    CHECK(result.missing.size() == 4);
}

TEST_CASE("a bug names the steps before it that MINE does not have", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    Planted planted("self_attn.head.1.scaled", 0.5);
    NamedArrays mine = arrays_of(recording_of(run_layer, planted));
    for (const char* gone : {"self_attn.head.1.scores", "self_attn.head.1.scaled", "self_attn.head.1.masked"})
        mine.erase(gone);
    const Diff result = diff(reference, std::move(mine));
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->step->path == "self_attn.head.1.weights");
    CHECK(result.first_wrong()->through ==
          std::vector<std::string>{"self_attn.head.1.scores", "self_attn.head.1.scaled", "self_attn.head.1.masked"});
}

TEST_CASE("other inputs are told apart from a wrong computation", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = arrays_of(reference);
    mine["x"].values[3] += 1;
    const Diff result = diff(reference, std::move(mine));
    CHECK(about(result, "x").verdict == DiffVerdict::bug);
    CHECK_THAT(about(result, "x").message, ContainsSubstring("it is an input, so MINE was given other numbers"));
}

TEST_CASE("the worst number is named by words for its axes, with both numbers and how far they are apart", "[diff]")
{
    const Recording reference = recording_of(run_heads);
    NamedArrays mine = arrays_of(reference);
    Array& scaled = mine["head.1.scaled"];
    const std::size_t offset = (2 * 4 + 1) * 5 + 3; // sequence 2, query 1, key 3
    const double expected = scaled.values[offset];
    REQUIRE(std::abs(expected) > 0.1);
    scaled.values[offset] = -expected;
    scaled.values[0] += 1e-3;
    const Diff result = diff(reference, std::move(mine));
    const StepDiff& step = about(result, "head.1.scaled");
    CHECK(step.place == "head 1, sequence 2, query 1, key 3");
    CHECK(step.distance.worst == Shape{2, 1, 3});
    CHECK(step.distance.expected == expected);
    CHECK(step.distance.found == -expected);
    CHECK(step.distance.absolute == Approx(2 * std::abs(expected)));
    CHECK(step.distance.relative == Approx(2));
    CHECK(step.distance.differing == 2);
    CHECK(step.distance.cosine < 1);
    CHECK(step.distance.cosine > 0.5);
    CHECK(step.distance.ulps >= 0x1p52);
    CHECK(step.distance.ulps <= 0x1p54);
}

TEST_CASE("numbers that are all off by one factor are said to be", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
        NamedArrays mine = rounded(reference, precision);
        for (double& value : mine["self_attn.head.1.scaled"].values)
            value = rounded_to(precision, value * 1.5);
        const Diff result = diff(reference, std::move(mine));
        REQUIRE(result.first_wrong() != nullptr);
        CHECK(result.first_wrong()->step->path == "self_attn.head.1.scaled");
        CHECK_THAT(result.first_wrong()->message, ContainsSubstring("; all of them are 1.5 times as large"));
    }
    NamedArrays mine = arrays_of(reference);
    mine["output"].values[0] *= 1.5;
    CHECK_THAT(diff(reference, std::move(mine)).first_wrong()->message, !ContainsSubstring("times as large"));
}

TEST_CASE("NaN and infinity fail, each by its own message", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    for (const auto& [number, words] :
         {std::pair(NAN, "is NaN in 1 of its 24 numbers"), std::pair(INFINITY, "is infinite in 1 of its 24 numbers")}) {
        Array changed = named(reference, "norm1.normalized").value;
        changed.values[5] = number;
        const Diff result = with_replaced(reference, "norm1.normalized", changed);
        CHECK_FALSE(result.passed());
        const StepDiff& step = about(result, "norm1.normalized");
        CHECK(step.verdict == DiffVerdict::bug);
        CHECK_THAT(step.message, ContainsSubstring(words));
        CHECK(step.distance.worst == Shape{0, 5});
        CHECK(std::isinf(step.distance.ulps));
        CHECK(step.distance.cosine == Approx(1));
        CHECK_FALSE(diff(reference, NamedArrays{{"norm1.normalized", changed}}, {.atol = 1e9}).passed());
    }
}

TEST_CASE("a NaN that follows from a NaN is inherited", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    Planted planted("self_attn.head.0.scaled", NAN);
    const Diff result = diff(reference, arrays_of(recording_of(run_layer, planted)));
    CHECK(result.first_wrong()->step->path == "self_attn.head.0.scaled");
    CHECK(result.count(DiffVerdict::bug) == 1);
    CHECK(about(result, "norm2.output").verdict == DiffVerdict::inherited);
}

TEST_CASE("zeros where minus infinity is expected are found", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    Array masked = named(reference, "self_attn.head.0.masked").value;
    for (double& value : masked.values)
        value = std::isinf(value) ? 0 : value;
    CHECK(with_replaced(reference, "self_attn.head.0.masked", masked).first_wrong()->step->path ==
          "self_attn.head.0.masked");
}

TEST_CASE("short and long arrays fail, and say of what they have too little or too much", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    const Array& scores = named(reference, "self_attn.head.0.scores").value;
    const Array first{{3, 4}, std::vector<double>(scores.values.begin(), scores.values.end() - 4), scores.type};
    const Array last{{3, 4}, std::vector<double>(scores.values.begin() + 4, scores.values.end()), scores.type};
    Array longer = scores;
    longer.shape[0] = 5;
    longer.values.resize(20);
    Array others = first;
    others.values[0] += 1;
    const auto message = [&](const Array& array) {
        const Diff result = with_replaced(reference, "self_attn.head.0.scores", array);
        CHECK_FALSE(result.passed());
        CHECK(result.count(DiffVerdict::bug) == 1); // what follows is right
        return about(result, "self_attn.head.0.scores").message;
    };
    CHECK(
        message(first) ==
        "is short: it has 3 of n, expected 4, in the shape (3, 4) instead of (4, 4); these are the reference's first");
    CHECK_THAT(message(last), ContainsSubstring("these are the reference's last"));
    CHECK(message(others) == "is short: it has 3 of n, expected 4, in the shape (3, 4) instead of (4, 4)");
    CHECK_THAT(message(longer), ContainsSubstring("is long: it has 5 of n, expected 4"));
    CHECK(message({{7}, std::vector<double>(7), ElementType::real}) == "has the shape (7,), expected (4, 4)");
    CHECK_THAT(message({{0, 4}, {}, ElementType::real}), ContainsSubstring("it has 0 of n, expected 4"));
}

// -------------------------------------------------------------------------------------------------------- layouts

TEST_CASE("transposed arrays are recognised, square or not", "[diff][layout]")
{
    const Recording reference = recording_of(run_layer);
    for (const char* path : {"self_attn.query_weights", "feed_forward.hidden_weights", "self_attn.head.1.queries",
                             "self_attn.head.1.scaled"}) {
        CAPTURE(path);
        const Diff result = with_replaced(reference, path, transposed(named(reference, path).value));
        CHECK_FALSE(result.passed());
        CHECK(about(result, path).verdict == DiffVerdict::layout);
        CHECK(about(result, path).layout == "is the reference's transpose");
        CHECK(result.first_wrong()->step->path == path);
        CHECK(result.count(DiffVerdict::bug) == 0); // what follows is right
    }
}

TEST_CASE("layouts are recognised in float32, too", "[diff][layout]")
{
    const Recording reference = recording_of(run_layer);
    RoundSteps rounding(Precision::float32);
    NamedArrays mine = rounded(recording_of(run_layer, rounding), Precision::float32);
    mine["self_attn.head.1.scaled"] = transposed(mine["self_attn.head.1.scaled"]);
    const Diff result = diff(reference, std::move(mine));
    CHECK(about(result, "self_attn.head.1.scaled").layout == "is the reference's transpose");
    CHECK(result.count(DiffVerdict::bug) == 0);
}

TEST_CASE("a step that goes on with a transposed operand inherits the layout", "[diff][layout]")
{
    class TransposeScores final : public Listener {
        std::optional<Array> on_step(const Step& step) override
        {
            return step.path == "self_attn.head.0.scores" ? std::optional(transposed(step.value)) : std::nullopt;
        }
    };
    TransposeScores transposing;
    const Recording reference = recording_of(run_layer);
    const Diff result = diff(reference, arrays_of(recording_of(run_layer, transposing)));
    CHECK(about(result, "self_attn.head.0.scores").verdict == DiffVerdict::layout);
    CHECK(about(result, "self_attn.head.0.scaled").verdict == DiffVerdict::layout);
    CHECK(about(result, "self_attn.head.0.weights").verdict == DiffVerdict::inherited);
    CHECK(result.count(DiffVerdict::bug) == 0);
}

TEST_CASE("sequence-first against batch-first is named", "[diff][layout]")
{
    const Recording reference = recording_of(run_heads);
    const Diff result = with_replaced(reference, "output", first_axes_swapped(named(reference, "output").value));
    CHECK(about(result, "output").layout ==
          "is sequence-first (n, b, d_model), the reference (b, n, d_model) is batch-first");
}

TEST_CASE("another shape of the same numbers is named, with or without moved axes", "[diff][layout]")
{
    const Recording reference = recording_of(run_layer);
    const Array& query = named(reference, "self_attn.query").value;
    Array flat = query, apart = query;
    flat.shape = {24};
    apart.shape = {4, 2, 3};
    CHECK(about(with_replaced(reference, "self_attn.query", flat), "self_attn.query").layout ==
          "is the reference in another shape: (24,) instead of (4, 6)");
    CHECK_THAT(about(with_replaced(reference, "self_attn.query", first_axes_swapped(apart)), "self_attn.query").layout,
               ContainsSubstring("another shape and order: (2, 4, 3) instead of (4, 6)") &&
                   ContainsSubstring("permute(x, 1, 0, 2)"));
}

TEST_CASE("heads in another order are named by their numbers", "[diff][layout]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = arrays_of(reference);
    for (const char* name : {"weights", "context"})
        std::swap(mine[std::string("self_attn.head.0.") + name], mine[std::string("self_attn.head.1.") + name]);
    const Diff result = diff(reference, mine);
    CHECK_FALSE(result.passed());
    CHECK(about(result, "self_attn.head.0.weights").layout == "is the reference's head 1");
    CHECK(about(result, "self_attn.head.1.weights").layout == "is the reference's head 0");

    // Side by side: blocks of columns.
    Array merged = named(reference, "self_attn.merged").value;
    for (std::size_t row = 0; row < 4; ++row)
        std::swap_ranges(merged.values.begin() + static_cast<std::ptrdiff_t>(row * 6),
                         merged.values.begin() + static_cast<std::ptrdiff_t>(row * 6 + 3),
                         merged.values.begin() + static_cast<std::ptrdiff_t>(row * 6 + 3));
    CHECK(about(with_replaced(reference, "self_attn.merged", merged), "self_attn.merged").layout ==
          "has its heads backwards");
}

TEST_CASE("heads merged without the permute, and features interleaved, are named", "[diff][layout]")
{
    const Recording reference = recording_of(run_layer);
    const Array& merged = named(reference, "self_attn.merged").value;
    Array apart = merged;
    apart.shape = {4, 2, 3};
    Array heads_first = first_axes_swapped(apart);
    heads_first.shape = {4, 6};
    CHECK_THAT(about(with_replaced(reference, "self_attn.merged", heads_first), "self_attn.merged").layout,
               ContainsSubstring("merged without the permute"));
    Array interleaved = merged;
    for (std::size_t i = 0; i < merged.size(); ++i)
        interleaved.values[i / 6 * 6 + i % 3 * 2 + i % 6 / 3] = merged.values[i];
    CHECK_THAT(about(with_replaced(reference, "self_attn.merged", interleaved), "self_attn.merged").layout,
               ContainsSubstring("interleaved"));
}

TEST_CASE("rows in another order, numbers in other places and an inverted mask are named", "[diff][layout]")
{
    const Recording reference = recording_of(run_layer);
    const Array& values = named(reference, "self_attn.head.0.values").value;
    Array rows = values, shuffled = values;
    std::rotate(rows.values.begin(), rows.values.begin() + 3, rows.values.end());
    std::swap(shuffled.values[0], shuffled.values[7]);
    CHECK(about(with_replaced(reference, "self_attn.head.0.values", rows), "self_attn.head.0.values").layout ==
          "is the reference with axis m in the order 1, 2, 3, 0");
    CHECK(about(with_replaced(reference, "self_attn.head.0.values", shuffled), "self_attn.head.0.values").layout ==
          "has the reference's numbers, each as often, in other places");
    Array mask = named(reference, "mask").value;
    for (double& value : mask.values)
        value = 1 - value;
    CHECK_THAT(about(with_replaced(reference, "mask", mask), "mask").layout,
               ContainsSubstring("true and false exchanged"));
}

// -------------------------------------------------------------------------------------------------------- names

TEST_CASE("missing steps are listed and pass, unless all are asked for or nothing is in common", "[diff][names]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = arrays_of(reference);
    mine.erase("norm1.mean");
    const Diff lenient = diff(reference, mine), strict = diff(reference, mine, {.all = true});
    CHECK(lenient.passed());
    CHECK(lenient.missing == std::vector<std::string>{"norm1.mean"});
    CHECK_FALSE(strict.passed());
    CHECK(strict.missing_fails);
    CHECK_FALSE(diff(reference, NamedArrays{}).passed());
}

TEST_CASE("an array that is no step fails, for a name may be misspelt", "[diff][names]")
{
    const Recording reference = recording_of(run_layer);
    NamedArrays mine = arrays_of(reference);
    mine["ouptut"] = mine["output"];
    const Diff result = diff(reference, std::move(mine));
    CHECK_FALSE(result.passed());
    CHECK(result.extra == std::vector<std::string>{"ouptut"});
    CHECK(result.first_different() == nullptr);
}

TEST_CASE("names can be mapped, one by one, by number, by the rest, and with an axis of heads", "[diff][names]")
{
    const Recording reference = recording_of(run_layer);
    const Array& output = named(reference, "output").value;
    const auto compared = [&](const std::string& name, const Array& array, const NameRule& rule) {
        const Diff result = diff(reference, NamedArrays{{name, array}}, {.names = {rule}});
        CHECK(result.passed());
        CHECK(result.extra.empty());
        return result.steps.size();
    };
    CHECK(compared("result", output, {"result", "output"}) == 1);
    CHECK(compared("norm_2", named(reference, "norm2.output").value, {"norm_{i}", "norm{i}.output"}) == 1);
    CHECK(compared("model.norm1.mean", named(reference, "norm1.mean").value, {"model.{*}", "{*}"}) == 1);
    CHECK(compared("probs", packed_heads(reference, "self_attn.", "weights", 2),
                   {"probs[..., {h}, :, :]", "self_attn.head.{h}.weights"}) == 2);
    CHECK(compared("w", transposed(named(reference, "self_attn.query_weights").value),
                   {"w.T", "self_attn.query_weights"}) == 1);
    CHECK(compared("w", stacked({named(reference, "norm1.gain").value, named(reference, "norm1.bias").value}),
                   {"w[1/2]", "norm1.bias"}) == 1);
    CHECK(compared("s", packed_heads(reference, "self_attn.", "masked", 2),
                   {"s[:, {h}]", "self_attn.head.{h}.none|self_attn.head.{h}.masked"}) == 2);
}

TEST_CASE("a wrong number in a packed array is named by its head", "[diff][names]")
{
    const Recording reference = recording_of(run_heads);
    Array probs = packed_heads(reference, "", "weights", 2);
    REQUIRE(probs.shape == Shape{3, 2, 4, 5});
    probs.values[((1 * 2 + 1) * 4 + 2) * 5 + 4] += 0.5;
    const Diff result =
        diff(reference, NamedArrays{{"probs", probs}}, {.names = {{"probs[:, {h}]", "head.{h}.weights"}}});
    CHECK(result.first_wrong()->place == "head 1, sequence 1, query 2, key 4");
    CHECK(result.first_wrong()->mine == "probs[:, 1]");
    CHECK(result.count(DiffVerdict::equal) == 1);
}

TEST_CASE("a packed array of another number of heads fails and says so", "[diff][names]")
{
    const Recording reference = recording_of(run_heads);
    const Array probs{{3, 4, 4, 5}, std::vector<double>(240), ElementType::real};
    const Diff result =
        diff(reference, NamedArrays{{"probs", probs}}, {.names = {{"probs[:, {h}]", "head.{h}.weights"}}});
    CHECK_FALSE(result.passed());
    CHECK_THAT(result.steps.at(0).message, ContainsSubstring("has 4 heads along axis 1 of (3, 4, 4, 5), expected 2"));
}

TEST_CASE("a malformed map is refused", "[diff][names]")
{
    const Recording reference = recording_of(run_heads);
    for (const NameRule& rule : {NameRule{"a[2]", "x"}, NameRule{"a[3/3]", "x"}, NameRule{"a[..., ...]", "x"},
                                 NameRule{"a", "head.{h}.x"}, NameRule{"a[{h}]", "x"}, NameRule{"", "x"}})
        CHECK_THROWS_AS(diff(reference, NamedArrays{}, {.names = {rule}}), Error);
}

namespace {

const NameTable& table_called(std::string_view name)
{
    for (const NameTable& table : name_tables())
        if (table.name == name)
            return table;
    throw std::out_of_range(std::string(name));
}

/// Compares arrays under a program's names with a run; returns how many steps were compared.
std::size_t compared_under(std::string_view table, const Recording& reference, NamedArrays mine)
{
    const Diff result = diff(reference, std::move(mine), {.table = &table_called(table)});
    for (const StepDiff& step : result.steps) {
        CAPTURE(step.step->path, step.mine, step.message);
        CHECK(step.verdict == DiffVerdict::equal);
    }
    CHECK(result.extra.empty());
    return result.steps.size();
}

} // namespace

TEST_CASE("the names of TransformerLens mean the steps that they say", "[diff][names]")
{
    const Recording steps = recording_of(run_stack);
    const std::string scope = "layers.1.self_attn.";
    const auto tokens_first = [&](const std::string& name) { // (b, n, h, d)
        Array heads = packed_heads(steps, scope, name, 3);
        Array result{{2, 5, 3, 2}, std::vector<double>(60), ElementType::real};
        for (std::size_t b = 0; b < 2; ++b)
            for (std::size_t h = 0; h < 3; ++h)
                for (std::size_t n = 0; n < 5; ++n)
                    for (std::size_t d = 0; d < 2; ++d)
                        result.values[((b * 5 + n) * 3 + h) * 2 + d] = heads.values[((b * 3 + h) * 5 + n) * 2 + d];
        return result;
    };
    CHECK(compared_under("transformer-lens", steps,
                         {{"blocks.1.hook_resid_pre", named(steps, "layers.1.x").value},
                          {"blocks.1.attn.hook_q", tokens_first("rotary_query.x")},
                          {"blocks.1.attn.hook_rot_q", tokens_first("queries")},
                          {"blocks.1.attn.hook_attn_scores", packed_heads(steps, scope, "scaled", 3)},
                          {"blocks.1.attn.hook_pattern", packed_heads(steps, scope, "weights", 3)},
                          {"blocks.1.attn.hook_z", tokens_first("context")},
                          {"blocks.1.hook_resid_post", named(steps, "layers.1.output").value}}) == 1 + 5 * 3 + 1);
}

TEST_CASE("the names of BERT are known with and without the model's in front, and for one layer alone", "[diff][names]")
{
    const Recording stack = recording_of(run_stack), layer = recording_of(run_layer);
    for (const std::string model : {"", "bert.", "model.bert."})
        CHECK(compared_under(
                  "bert", stack,
                  {{model + "encoder.layer.1.attention.self.query", named(stack, "layers.1.self_attn.query").value},
                   {model + "encoder.layer.0.attention.self.dropout",
                    packed_heads(stack, "layers.0.self_attn.", "weights", 3)},
                   {model + "encoder.layer.0.output.dense", named(stack, "layers.0.feed_forward.output").value},
                   {model + "encoder.layer.1", named(stack, "layers.1.output").value}}) == 6);
    for (const std::string begin : {"", "encoder.layer.0.", "bert.encoder.layer.0."})
        CHECK(compared_under(
                  "bert", layer,
                  {{begin + "attention.self.key", named(layer, "self_attn.key").value},
                   {begin + "attention.output.dense", named(layer, "self_attn.output").value},
                   {begin + "output.dense", named(layer, "feed_forward.output").value},
                   {begin + "intermediate.dense.weight", transposed(named(layer, "feed_forward.hidden_weights").value)},
                   {begin + "output.LayerNorm.bias", named(layer, "norm2.bias").value}}) == 5);
}

TEST_CASE("the names of PyTorch's layer and of its attention alone mean the steps that they say", "[diff][names]")
{
    const Recording layer = recording_of(run_layer), heads = recording_of(run_heads);
    std::vector<Array> maps, biases;
    for (const char* map : {"query", "key", "value"}) {
        maps.push_back(transposed(named(layer, std::string("self_attn.") + map + "_weights").value));
        biases.push_back(named(layer, std::string("self_attn.") + map + "_bias").value);
    }
    Array weight = stacked(maps), bias = stacked(biases);
    weight.shape = {18, 6};
    bias.shape = {18};
    CHECK(compared_under("pytorch", layer,
                         {{"self_attn.in_proj_weight", weight},
                          {"self_attn.in_proj_bias", bias},
                          {"self_attn.attn_output_weights", packed_heads(layer, "self_attn.", "weights", 2)},
                          {"linear1", named(layer, "feed_forward.hidden").value},
                          {"norm1.weight", named(layer, "norm1.gain").value},
                          {"norm2", named(layer, "norm2.output").value}}) == 3 + 3 + 2 + 3);
    CHECK(compared_under("pytorch", heads,
                         {{"attn_output", named(heads, "output").value},
                          {"attn_output_weights", packed_heads(heads, "", "weights", 2)},
                          {"out_proj.bias", named(heads, "output_bias").value}}) == 4);
}

TEST_CASE("the names of ONNX's Attention are those of heads or of one attention", "[diff][names]")
{
    const Recording heads = recording_of(run_heads);
    CHECK(compared_under("onnx", heads,
                         {{"Q", packed_heads(heads, "", "queries", 2)},
                          {"K", named(heads, "key").value},
                          {"qk_matmul_output", packed_heads(heads, "", "scaled", 2)},
                          {"Y", packed_heads(heads, "", "context", 2)}}) == 7);
    const Recording alone = recording_of([](const Trace& trace) {
        Numbers numbers(14);
        const Matrix q = numbers.matrix(2, 3), k = numbers.matrix(4, 3), v = numbers.matrix(4, 5);
        scaled_dot_product_attention(q, k, v, {}, {}, {}, trace);
    });
    Array q = named(alone, "queries").value;
    q.shape = {1, 1, 2, 3};
    CHECK(compared_under("onnx", alone, {{"Q", q}, {"Y", named(alone, "context").value}}) == 2);
}

TEST_CASE("the names of Llama mean the steps of a pre-norm layer", "[diff][names]")
{
    const Recording stack = recording_of(run_stack);
    CHECK(compared_under("llama", stack,
                         {{"model.layers.1.self_attn.q_proj", named(stack, "layers.1.self_attn.query").value},
                          {"model.layers.0.self_attn.o_proj.weight",
                           transposed(named(stack, "layers.0.self_attn.output_weights").value)},
                          {"model.layers.0.input_layernorm", named(stack, "layers.0.norm1.output").value},
                          {"attentions.1", packed_heads(stack, "layers.1.self_attn.", "weights", 3)}}) == 6);
}

TEST_CASE("every name of every table means a step that a layer or an attention has", "[diff][names]")
{
    std::set<std::string> paths;
    for (const Run& run : {Run(run_stack), Run([](const Trace& trace) {
                               const Trace layers = trace.scope("layers", 0);
                               run_layer(layers);
                           }),
                           Run([](const Trace& trace) {
                               Numbers numbers(15);
                               const Matrix x = numbers.matrix(2, 3);
                               scaled_dot_product_attention(x, x, x, Mask(Mask::shape_type{2, 2}, true), {}, {}, trace);
                           }),
                           Run([](const Trace& trace) {
                               Numbers numbers(16);
                               const Matrix x = numbers.matrix(2, 6);
                               multi_head_attention(x, {}, numbers.matrix(2, 2), random_heads(numbers), {.heads = 2},
                                                    trace);
                           })})
        for (const Step& step : recording_of(run).steps) {
            paths.insert(step.path);
            paths.insert("layers.0.self_attn." + step.path);
        }
    for (const NameTable& table : name_tables())
        for (const NameRule& rule : table.rules) {
            CAPTURE(table.name, rule.theirs, rule.step);
            std::string rest = rule.step + '|';
            for (std::size_t end = rest.find('|'); end != std::string::npos; end = rest.find('|')) {
                std::string step = rest.substr(0, end);
                rest.erase(0, end + 1);
                for (const char* hole : {"{i}", "{h}"})
                    for (std::size_t at = step.find(hole); at != std::string::npos; at = step.find(hole))
                        step.replace(at, 3, "0");
                CAPTURE(step);
                CHECK(paths.contains(step));
            }
        }
}

TEST_CASE("docs/diff.md lists the names of every table, row by row", "[diff][names][source]")
{
    const std::string page = source_file("docs/diff.md").text;
    for (const NameTable& table : name_tables()) {
        std::string rows = "## " + std::string(table.name) + " {#diff_names_" + std::string(table.name) + "}\n\n" +
                           std::string(table.of) + ".\n\n| name | step |\n|------|------|\n";
        for (const NameRule& rule : table.rules) {
            std::string step = rule.step;
            for (std::size_t at = step.find('|'); at != std::string::npos; at = step.find('|', at + 1))
                step.replace(at, 1, "`, else `");
            rows += "| `" + rule.theirs + "` | `" + step + "` |\n";
        }
        if (const char* file = std::getenv("ATTN_NAME_TABLES")) // to write new ones
            std::ofstream(file, std::ios::app) << rows << '\n';
        CAPTURE(table.name);
        CHECK(page.find(rows) != std::string::npos);
    }
}

// -------------------------------------------------------------------------------------------------------- diagnosis

namespace {

/// What a run gives with a well-known mistake in every step that it concerns.
NamedArrays mistaken(const Run& run, std::string_view pitfall)
{
    Mistaken mistake(find_pitfall(pitfall));
    return arrays_of(recording_of(run, mistake));
}

/// Diagnosed from those arrays alone whose names are given; ids with the first step that they were made in.
std::vector<std::string> diagnosed(const Run& run, const NamedArrays& all, const std::vector<std::string>& kept)
{
    const Recording reference = recording_of(run);
    NamedArrays mine;
    for (const std::string& name : kept)
        mine.emplace(name, all.at(name));
    std::vector<std::string> found;
    for (const Diagnosis& diagnosis : diagnose(diff(reference, std::move(mine))))
        found.push_back(std::string(diagnosis.pitfall->id).append(" in ").append(diagnosis.steps.front()->path));
    return found;
}

} // namespace

TEST_CASE("a mistake is recognised in the first wrong step, and in steps that MINE does not have", "[diff][diagnose]")
{
    const NamedArrays all = mistaken(run_stack, "scale_d_k");
    const std::vector<std::string> expected{"scale_d_k in layers.0.self_attn.head.0.scaled"};
    CHECK(diagnosed(run_stack, all, {"layers.0.self_attn.head.0.scaled"}) == expected);
    CHECK(diagnosed(run_stack, all, {"layers.0.self_attn.output", "output"}) == expected);
    CHECK(diagnosed(run_stack, all, {"output"}) == expected);
}

TEST_CASE("a mistake between two steps that MINE has is looked for there only", "[diff][diagnose]")
{
    NamedArrays all = arrays_of(recording_of(run_stack));
    const NamedArrays wrong = mistaken(run_stack, "gelu_tanh");
    all["layers.0.feed_forward.output"] = wrong.at("layers.0.feed_forward.output");
    const Recording reference = recording_of(run_stack);
    const std::vector<Diagnosis> found =
        diagnose(diff(reference, {{"layers.0.feed_forward.x", all["layers.0.feed_forward.x"]},
                                  {"layers.0.feed_forward.output", all["layers.0.feed_forward.output"]}}));
    REQUIRE(found.size() == 1);
    CHECK(found.front().pitfall->id == "gelu_tanh");
    REQUIRE(found.front().steps.size() == 1);
    CHECK(found.front().steps.front()->path == "layers.0.feed_forward.activated");
}

TEST_CASE("what is right, and what no known mistake gives, is not diagnosed", "[diff][diagnose]")
{
    CHECK(diagnosed(run_layer, arrays_of(recording_of(run_layer)), {"output"}).empty());
    Planted planted("self_attn.head.0.scaled", 0.5);
    const NamedArrays wrong = arrays_of(recording_of(run_layer, planted));
    CHECK(diagnosed(run_layer, wrong, {"self_attn.head.0.scaled"}).empty());
    CHECK(diagnosed(run_layer, wrong, {"self_attn.output"}).empty());
}

TEST_CASE("a mistake in what a step is given is recognised where it is saved, and where it is not", "[diff][aliases]")
{
    NamedArrays all = mistaken(run_layer, "norm_skipped");
    const std::vector<std::string> expected{"norm_skipped in feed_forward.hidden"};
    CHECK(diagnosed(run_layer, all, {"norm1.output", "feed_forward.hidden"}) == expected);
    all["feed_forward.x"] = all["residual1"];
    CHECK(diagnosed(run_layer, all, {"residual1", "norm1.output", "feed_forward.x", "feed_forward.hidden"}) ==
          expected);
}

// -------------------------------------------------------------------------------------------------------- files

TEST_CASE("a folder of .npy files is compared by the files' places in it", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    const TemporaryFolder folder;
    std::filesystem::create_directories(folder / "self_attn");
    put_bytes(folder / "output.npy", encode_npy(named(reference, "output").value));
    put_bytes(folder.path() / "self_attn" / "head.0.scores.npy",
              encode_npy(named(reference, "self_attn.head.0.scores").value));
    put_bytes(folder / "notes.txt", "nothing");
    const Diff result = diff(reference, folder.path());
    CHECK(result.passed());
    CHECK(result.steps.size() == 2);
    put_bytes(folder / "broken.npy", "nothing");
    CHECK_THROWS_WITH(diff(reference, folder.path()), ContainsSubstring("broken.npy"));
    const TemporaryFolder empty;
    CHECK_THROWS_WITH(diff(reference, empty.path()), ContainsSubstring("without .npy files"));
}

TEST_CASE("a file gives what its arrays give, whether they are the reference's or not", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    Planted planted("self_attn.head.0.scaled", 0.5);
    const Recording mine = recording_of(run_layer, planted);
    const TemporaryFolder folder;
    Npz content;
    for (const Step& step : mine.steps)
        content.arrays.emplace_back(step.path, step.value);
    write_npz(folder / "m.npz", content);
    const Diff of_file = diff(reference, folder / "m.npz"), of_arrays = diff(reference, arrays_of(mine));
    REQUIRE(of_file.steps.size() == of_arrays.steps.size());
    for (std::size_t i = 0; i < of_file.steps.size(); ++i) {
        CHECK(of_file.steps[i].verdict == of_arrays.steps[i].verdict);
        CHECK(of_file.steps[i].message == of_arrays.steps[i].message);
    }
}
