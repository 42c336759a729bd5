// Where MINE first goes wrong, and how that is told.

#include "attn/diff/diff.hpp"

#include "runs.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/npy.hpp"
#include "attn/files/npz.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"

#include <fmt/format.h>

#include <cmath>

using namespace attn;
using namespace attn::diff;
using namespace attn::files;
using namespace attn::mistakes;
using namespace attn::test;

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
    const Diff renamed = diff::compare(reference, mine);
    CHECK(renamed.passed());
    CHECK(renamed.missing.empty());
    CHECK(renamed.extra.empty());
    CHECK(about(renamed, "residual1").mine == "norm1.x");
    mine["residual1"] = mine["norm1.x"];
    CHECK(diff::compare(reference, mine).steps.size() == reference.steps.size());
    const Diff mapped = diff::compare(reference, {{"sum", mine["residual1"]}}, {.names = {{"sum", "norm1.x"}}});
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
    const Diff result = diff::compare(reference, mine);
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
            const Diff result = diff::compare(reference, arrays_of(mine));
            if (const StepDiff* hidden = result.first_without_effect()) { // by a mask
                CHECK(hidden->step->path == step.path);
                CHECK(result.passed());
                continue;
            }
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
        const Diff result = diff::compare(reference, rounded(recording_of(run_layer, both), Precision::float32));
        CHECK(result.type == NumberType::float32);
        const StepDiff* hidden = result.first_without_effect(); // by a mask
        const StepDiff* first = hidden != nullptr ? hidden : result.first_wrong();
        REQUIRE(first != nullptr);
        CHECK(first->step->path == step.path);
        CHECK(result.count(DiffVerdict::bug) == (hidden != nullptr ? 0 : 1));
    }
}

TEST_CASE("two mistakes are two bugs, though the second one's operands are wrong already", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    Planted first("self_attn.head.0.scores", 0.5), second("feed_forward.hidden", 0.25);
    Listeners both({&first, &second});
    const Diff result = diff::compare(reference, arrays_of(recording_of(run_layer, both)));
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
    const Diff result = diff::compare(reference, std::move(mine));
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
    const Diff result = diff::compare(reference, std::move(mine));
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
    const Diff result = diff::compare(reference, std::move(mine));
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
    const Diff result = diff::compare(reference, std::move(mine));
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
        for (double& value : mine["self_attn.head.1.context"].values)
            value = rounded_to(precision, value * 1.5);
        const Diff result = diff::compare(reference, std::move(mine));
        REQUIRE(result.first_wrong() != nullptr);
        CHECK(result.first_wrong()->step->path == "self_attn.head.1.context");
        CHECK_THAT(result.first_wrong()->message, ContainsSubstring("; all of them are 1.5 times as large"));
    }
    NamedArrays mine = arrays_of(reference);
    mine["output"].values[0] *= 1.5;
    CHECK_THAT(diff::compare(reference, std::move(mine)).first_wrong()->message, !ContainsSubstring("times as large"));

    ByFormulas program; // of one number, any other is a multiple
    program.given("x", real({3}, {0.3, 0.7, -1.1})).computed("total", "sum(x * x)");
    const Diff one = diff::compare(program.recording, {{"x", real({3}, {0.3, 0.7, -1.1})}, {"total", real({}, {2.5})}});
    REQUIRE(one.first_wrong() != nullptr);
    CHECK_THAT(one.first_wrong()->message, !ContainsSubstring("times as large"));
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
        CHECK_FALSE(diff::compare(reference, NamedArrays{{"norm1.normalized", changed}}, {.atol = 1e9}).passed());
    }
}

TEST_CASE("a NaN that follows from a NaN is inherited", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    Planted planted("self_attn.head.0.scaled", NAN);
    const Diff result = diff::compare(reference, arrays_of(recording_of(run_layer, planted)));
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
    // Before steps that are right they are another quantity: the scores before the mask.
    NamedArrays mine = arrays_of(reference);
    mine["self_attn.head.0.masked"] = masked;
    CHECK(diff::compare(reference, mine).passed());
    const Diff result = diff::compare(reference, NamedArrays{{"self_attn.head.0.masked", masked}});
    REQUIRE(result.first_wrong() != nullptr);
    CHECK(result.first_wrong()->step->path == "self_attn.head.0.masked");
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

// -------------------------------------------------------------------------------------------------------- files

TEST_CASE("arrays of another size are told without drawing other roundings", "[diff][time]")
{
    const Recording reference = recording_of(run_stack);
    NamedArrays right = arrays_of(reference), short_ones = right;
    for (auto& [name, array] : short_ones)
        if (array.shape.size() == 3 && !named(reference, name).formula.empty()) {
            array.shape[0] -= 1;
            array.values.resize(element_count(array.shape));
        }
    const auto operations = [&](const NamedArrays& mine) {
        constexpr double many = 1e12;
        const BudgetScope budget(Budget::of_operations(many));
        (void)diff::compare(reference, mine);
        return many - current_budget()->left();
    };
    CAPTURE(operations(right), operations(short_ones));
    CHECK(operations(short_ones) < 200 * operations(right)); // five more draws each take 1,000 times
}

TEST_CASE("a budget that is spent too early leaves an answer: wrong where that is known, and else undecided", "[diff]")
{
    const Recording reference = recording_of(run_stack);
    Planted planted("layers.0.self_attn.head.0.scaled", 2);
    NamedArrays mine, right = arrays_of(reference);
    for (const auto& [name, array] : arrays_of(recording_of(run_stack, planted)))
        mine["mine_" + std::to_string(mine.size())] = array; // to be found by its numbers
    right.at("output").values[0] += 1e-15;                   // which is recomputed
    std::size_t undecided = 0, different = 0;
    for (double operations = 1e5; operations < 1e9; operations *= 2) {
        const BudgetScope budget(Budget::of_operations(operations));
        CAPTURE(operations);
        const Diff result = diff::compare(reference, mine);
        CHECK_FALSE(result.passed());
        different += result.first_wrong() == nullptr ? 0 : 1;
        undecided += result.first_wrong() == nullptr ? 1 : 0;
        CHECK_NOTHROW(diff::diagnose(result));
        const BudgetScope another(Budget::of_operations(operations));
        const Diff same = diff::compare(reference, right);
        CHECK(same.first_different() == nullptr);
        CHECK_NOTHROW(diff::power_of(same));
    }
    CHECK(undecided > 0);
    CHECK(different > 0);
}

TEST_CASE("a folder of .npy files is compared by the files' places in it", "[diff]")
{
    const Recording reference = recording_of(run_layer);
    const TemporaryFolder folder;
    std::filesystem::create_directories(folder / "self_attn");
    put_bytes(folder / "output.npy", encode_npy(named(reference, "output").value));
    put_bytes(folder.path() / "self_attn" / "head.0.scores.npy",
              encode_npy(named(reference, "self_attn.head.0.scores").value));
    put_bytes(folder / "notes.txt", "nothing");
    const Diff result = diff::compare(reference, folder.path());
    CHECK(result.passed());
    CHECK(result.steps.size() == 2);
    put_bytes(folder / "broken.npy", "nothing");
    CHECK_THROWS_WITH(diff::compare(reference, folder.path()), ContainsSubstring("broken.npy"));
    const TemporaryFolder empty;
    CHECK_THROWS_WITH(diff::compare(reference, empty.path()), ContainsSubstring("without .npy files"));
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
    const Diff of_file = diff::compare(reference, folder / "m.npz"),
               of_arrays = diff::compare(reference, arrays_of(mine));
    REQUIRE(of_file.steps.size() == of_arrays.steps.size());
    for (std::size_t i = 0; i < of_file.steps.size(); ++i) {
        CHECK(of_file.steps[i].verdict == of_arrays.steps[i].verdict);
        CHECK(of_file.steps[i].message == of_arrays.steps[i].message);
    }
}
