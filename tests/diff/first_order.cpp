#include "src/diff/first_order.hpp"

#include "runs.hpp"
#include "test.hpp"

#include <algorithm>
#include <map>
#include <string>

using namespace attn;
using namespace attn::diff;
using namespace attn::mistakes;
using namespace attn::test;

namespace {

/// How unlike a wrong result each mistake is, in its form that is nearest, made wherever it can be.
std::map<std::string, double> unlikeness_of_each(const Wrong& wrong, Diff::World& world)
{
    FirstOrder to_first_order(wrong, world);
    std::map<std::string, double> each;
    for (const Pitfall& pitfall : pitfalls())
        for (const PitfallForm& form : pitfall.forms)
            for (const std::string_view value : form.values)
                for (const Edits& edits : choices_of(form, value, Reach::all, wrong.before, world)) {
                    const double unlikeness = to_first_order.unlikeness(edits);
                    const auto [known, is_new] = each.try_emplace(std::string(pitfall.id), unlikeness);
                    known->second = std::min(known->second, unlikeness);
                }
    return each;
}

} // namespace

TEST_CASE("to first order a mistake is like what it does, and few others are", "[diff][diagnose]")
{
    const std::string_view pitfall = GENERATE("gelu_tanh", "norm_bessel", "norm_epsilon_value");
    CAPTURE(pitfall);
    Mistaken mistake(find_pitfall(pitfall));
    const Array found = arrays_of(recording_of(run_stack, mistake)).at("output");
    const Recording reference = recording_of(run_stack);
    const Diff result = diff::compare(reference, {{"output", found}}, {.type = NumberType::float64});
    Diff::World& world = *result.world;
    const std::size_t output = world.names.find("output").value();
    const std::map<std::string, double> each =
        unlikeness_of_each({output, found, named(reference, "output").value, world.unknown_before(output)}, world);

    REQUIRE(each.size() > 20);
    constexpr double like = 0.1; // of six features norm_bessel changes a tenth, which is not all of first order
    CHECK(each.at(std::string(pitfall)) < like);
    CHECK(std::ranges::count_if(each, [](const auto& one) { return one.second < like; }) <= 3);
}

TEST_CASE("what goes the other way, and what changes nothing, is unlikely to first order", "[diff][diagnose]")
{
    ByFormulas run;
    run.given("x", real({3}, {1, 2, 4})).computed("doubled", "2*x").computed("output", "doubled*doubled");
    const auto unlikeness = [&](double factor, const std::string& edited) {
        Array found = run.recording.steps.back().value;
        for (double& number : found.values)
            number *= factor;
        const Diff result = diff::compare(run.recording, {{"output", found}});
        Diff::World& world = *result.world;
        const Wrong wrong{2, found, run.recording.steps.back().value, world.unknown_before(2)};
        return FirstOrder(wrong, world).unlikeness({{1, edited}});
    };
    CHECK(unlikeness(1.02, "2.02*x") < 0.01); // 1.0201 times as much
    CHECK(unlikeness(1.02, "2.2*x") > 0.2);   // the same direction, ten times as far
    CHECK(unlikeness(0.98, "2.02*x") == FirstOrder::unlikely);
    CHECK(unlikeness(1.02, "2*x") == FirstOrder::unlikely);
    CHECK(unlikeness(1.02, "no_such_step") == FirstOrder::unlikely);
}
