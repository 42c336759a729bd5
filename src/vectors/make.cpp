// From the plan to vectors: inputs are drawn, mistakes are made, and what catches nothing new is left out.

#include "alternatives.hpp"
#include "arrays.hpp"
#include "calls.hpp"
#include "draw.hpp"
#include "plan.hpp"

#include "attn/formula/gradient.hpp"
#include "attn/vectors/choose.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace attn::vectors {
namespace {

// A mistake is caught where it moves a result by so many times the tolerance in float32; two are told apart where theirs differ by so
// many times that.
constexpr double caught_times = 100, told_times = 10;
// Other inputs of the same sizes that are tried where a mistake is not caught.
constexpr std::size_t attempts = 3;

/// How many times the tolerance the results are off at most.
double most_off(const std::vector<Output>& found, const std::vector<Output>& right, NumberType type)
{
    double most = 0;
    for (std::size_t i = 0; i < right.size(); ++i)
        for (std::size_t j = 0; j < right[i].value.size(); ++j)
            most = std::max(most,
                            times_off(found[i].value.values[j], right[i].value.values[j], right[i].tolerance.at(type)));
    return most;
}

struct Candidate {
    std::size_t file, group;
    Case made;
    std::vector<Need> serves;
};

/// "d = 4, n = 3": those of one call; of several "d = 4, n = 3 1 2", where they differ.
std::string sizes_text(const std::vector<Sizes>& sizes)
{
    std::string text;
    for (const auto& [axis, size] : sizes.front()) {
        text += (text.empty() ? "" : ", ") + axis + " = " + std::to_string(size);
        if (std::ranges::any_of(sizes, [&](const Sizes& one) { return one.at(axis) != size; }))
            for (std::size_t call = 1; call < sizes.size(); ++call)
                text += " " + std::to_string(sizes[call].at(axis));
    }
    return text;
}

/// The gradients of everything that is given, from a gradient of the result that is drawn.
Recording with_gradients(const Recording& forward, Arrays& inputs, Draws& draws)
{
    Drawn drawn{"grad.output", {}};
    for (const std::size_t size : forward.at("output").value.shape)
        drawn.axes.push_back(std::to_string(size));
    inputs.emplace_back(drawn.name, draw(drawn, {}, draws));
    return formula::gradients(forward, {.of = "output", .seed = inputs.back().second});
}

/// The results, by the names that they have here, and their steps' paths: the output, that of each call, or the gradients of
/// everything that is given. An input that is a step under another name has its own.
std::vector<std::pair<std::string, std::string>> results_of(const Case& made, const PlannedFile& file,
                                                            std::size_t calls)
{
    if (!file.is_backward && made.requests.empty())
        return {{"output", "output"}};
    std::vector<std::pair<std::string, std::string>> results;
    if (!file.is_backward)
        for (std::size_t call = 0; call < calls; ++call)
            results.emplace_back(scope_of(call) + "output", scope_of(call) + "output");
    if (!file.is_backward)
        return results;
    const std::string scope(formula::gradient_scope);
    for (const Step& step : made.steps.steps) {
        if (!step.formula.empty() || step.value.type != ElementType::real || step.path.starts_with(scope) ||
            made.steps.find(scope + step.path) == nullptr)
            continue;
        const auto input =
            std::ranges::find_if(made.inputs, [&](const auto& given) { return identical(given.second, step.value); });
        results.emplace_back(scope + (input == made.inputs.end() ? step.path : input->first), scope + step.path);
    }
    return results;
}

/// Leaves out the results that are right, but for roundings.
void keep_what_differs(std::vector<Output>& outputs, const std::vector<Output>& right)
{
    std::vector<Output> kept;
    for (std::size_t i = 0; i < outputs.size(); ++i)
        if (!is_same(outputs[i].value, right[i].value, right[i].tolerance.at(NumberType::float64)))
            kept.push_back(std::move(outputs[i]));
    outputs = std::move(kept);
}

/// The mistakes that a case catches, each in its usual form.
std::map<std::string, const Alternative*> caught_by(const Case& made)
{
    std::map<std::string, const Alternative*> caught;
    for (const Alternative& one : made.wrong)
        if (most_off(one.outputs, made.outputs, NumberType::float32) > caught_times)
            caught.emplace(one.name, &one);
    return caught;
}

/// A mistake is caught by a case of each function that can make it, and by two in all; two mistakes are told apart by a case of
/// each function; and each group has a case.
std::vector<Need> needs_of(const Case& made, const PlannedFile& file, const std::string& group)
{
    const std::map<std::string, const Alternative*> caught = caught_by(made);
    std::vector<Need> needs{{group}};
    for (const auto& [name, one] : caught) {
        needs.push_back({name, 2});
        needs.push_back({file.function + ": " + name});
        for (const auto& [other_name, other] : caught)
            if (name < other_name && most_off(other->outputs, one->outputs, NumberType::float32) > told_times)
                needs.push_back({file.function + ": " + name + " or " + other_name});
    }
    return needs;
}

Case make_case(const PlannedFile& file, const PlannedGroup& group, const std::vector<Sizes>& sizes, Draws draws,
               const RunFunction& run)
{
    Case made;
    made.seed = draws.seed();
    made.comment = sizes_text(sizes);
    if (!group.calls)
        made.inputs = draw_all(group.inputs, sizes.front(), draws);
    made.weights = draw_all(group.weights, sizes.front(), draws);
    made.has_formulas =
        std::ranges::any_of(group.inputs, [](const Drawn& one) { return one.holds == Holds::by_formula; });
    std::vector<CallNames> calls;
    if (group.calls) {
        made.requests = group.calls->requests;
        std::tie(made.inputs, made.steps, calls) = run_calls(file, group, sizes, made.weights, draws, run);
    } else {
        made.steps = run(file.module, group.parameters, made.inputs, made.weights);
    }
    if (file.is_backward)
        made.steps = with_gradients(made.steps, made.inputs, draws);
    for (const std::size_t row : group.rows)
        if (row < sizes.front().at("n"))
            made.rows.push_back(row);

    const Alternatives alternatives(made.steps, results_of(made, file, sizes.size()), made.rows);
    made.outputs = alternatives.right();
    for (const auto& [name, formulas] : group.accepts)
        made.accepted.push_back(alternatives.of_convention(name, formulas));
    if (group.calls)
        made.wrong = alternatives.of_calls(group.calls->mistakes, calls);
    else if (!made.has_formulas) // which is about sizes
        made.wrong = alternatives.of_mistakes();
    std::erase_if(made.wrong, [&](const Alternative& one) {
        return std::ranges::any_of(made.accepted, [&](const Alternative& accepted) {
            return most_off(one.outputs, accepted.outputs, NumberType::float32) < 1;
        });
    });
    return made;
}

/// False where roundings decide, such as which of two equal experts is chosen.
bool is_settled(const Case& made)
{
    constexpr double much = 1e-3;
    return std::ranges::all_of(made.outputs, [](const Output& output) {
        return output.tolerance.at(NumberType::float32) < much * largest_of(output.value);
    });
}

std::vector<Candidate> candidates(const std::vector<PlannedFile>& files, std::uint64_t seed, const RunFunction& run)
{
    std::vector<Candidate> all;
    for (std::size_t f = 0; f < files.size(); ++f)
        for (std::size_t g = 0; g < files[f].groups.size(); ++g) {
            const PlannedGroup& group = files[f].groups[g];
            const std::string place = files[f].name + '/' + std::to_string(g + 1);
            for (std::size_t attempt = 0; attempt < (group.keeps_all ? 1 : attempts); ++attempt)
                for (const auto& sizes : group.sizes) {
                    const std::string name = place + '/' + sizes_text(sizes) + '/' + std::to_string(attempt);
                    Case made = make_case(files[f], group, sizes, Draws(seed, name), run);
                    if (!is_settled(made))
                        continue;
                    std::vector<Need> needs = needs_of(made, files[f], group.keeps_all ? name : place);
                    all.push_back({f, g, std::move(made), std::move(needs)});
                }
        }
    return all;
}

} // namespace

std::vector<File> make_vectors(std::uint64_t seed, const RunFunction& run)
{
    const std::vector<PlannedFile> planned = plan();
    std::vector<Candidate> all = candidates(planned, seed, run);
    std::vector<std::vector<Need>> serves;
    for (const Candidate& one : all)
        serves.push_back(one.serves);

    std::vector<File> files;
    for (const PlannedFile& one : planned) {
        files.push_back({one.name, one.function, one.title, one.about, {}, one.groups.front().calls.has_value()});
        for (const PlannedGroup& group : one.groups)
            files.back().groups.push_back({group.comment, group.parameters, {}});
    }
    for (const std::size_t number : choose(serves)) {
        auto& [file, group, made, needs] = all[number];
        std::vector<Case>& cases = files[file].groups[group].cases;
        made.id = files[file].name + '/' + std::to_string(group + 1) + '/' + std::to_string(cases.size() + 1);
        for (Alternative& one : made.wrong)
            keep_what_differs(one.outputs, made.outputs);
        if (!made.rows.empty())
            made.steps = {};
        cases.push_back(std::move(made));
    }
    return files;
}

} // namespace attn::vectors
