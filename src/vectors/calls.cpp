#include "calls.hpp"

#include "attn/core/choices.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace attn::vectors {
namespace {

// ------------------------------------------------------------------------------------------------------------ the calls

/// Steps of all calls, as they come.
class CallSteps {
public:
    /// An input, or what a formula says.
    const Array& add(const std::string& path, const std::string& formula, Array value = {})
    {
        if (!formula.empty())
            value = formula::evaluate(formula, [&](std::string_view name) {
                        return formula::resolve(path, name, [&](const std::string& whole) -> const Array* {
                            const Step* const step = all_.find(whole);
                            return step == nullptr ? nullptr : &step->value;
                        });
                    }).value;
        all_.steps.push_back(
            {.path = path, .formula = formula, .axes = {}, .module = {}, .options = {}, .value = value});
        return all_.steps.back().value;
    }

    /// Those of one call. Inputs that were computed are here by their formulas already.
    void add(const std::string& scope, const Recording& of_call)
    {
        for (Step step : of_call.steps) {
            step.path.insert(0, scope);
            if (all_.find(step.path) == nullptr)
                all_.steps.push_back(std::move(step));
        }
        for (const Alias& alias : of_call.aliases)
            all_.aliases.push_back({scope + alias.path, scope + alias.target});
    }

    Recording take() && { return std::move(all_); }

private:
    Recording all_;
};

/// @param first  call of the request; it and `before`, the last call of the request before it, are numbers of calls
CallNames names_of(std::size_t call, std::size_t first, const std::optional<std::size_t>& before,
                   const std::vector<Sizes>& sizes, const Json& parameters)
{
    CallNames names;
    for (const auto& [name, value] : parameters.items())
        names[name] = value.is_string() ? value.get<std::string>() : value.dump();
    for (const auto& [axis, size] : sizes[call])
        names[axis] = std::to_string(size);
    std::size_t past = 0;
    for (std::size_t i = first; i < call; ++i)
        past += sizes[i].at("n");
    names["past"] = std::to_string(past);
    names["prompt"] = std::to_string(sizes[first].at("n"));
    if (call > first) {
        names["previous"] = std::to_string(call - 1);
        names["newest"] = std::to_string(sizes[call - 1].at("n"));
    }
    if (before)
        names["old"] = std::to_string(*before);
    return names;
}

// --------------------------------------------------------------------------------------------------------- the mistakes

constexpr Choice<EditedCalls> edited_calls[] = {
    {EditedCalls::all, "all"}, {EditedCalls::first_of_request, "first"}, {EditedCalls::later, "later"}};

CallEdit edit_of(const Json& json)
{
    CallEdit edit{.step = json.at("step"), .right = json.at("right"), .mistaken = json.at("mistaken")};
    const std::string calls = json.value("calls", "all");
    const auto* const found = std::ranges::find(edited_calls, calls, &Choice<EditedCalls>::name);
    if (found == std::end(edited_calls))
        throw std::logic_error("src/vectors/calls: an edit is of the calls " + calls +
                               ", expected all, first or later");
    edit.calls = found->choice;
    return edit;
}

std::vector<std::string> columns_of(const std::string& line)
{
    std::vector<std::string> columns;
    std::istringstream text(line);
    for (std::string column; std::getline(text, column, '\t');)
        columns.push_back(column);
    return columns;
}

/// Sentence, why and link of each mistake, by id.
std::map<std::string, std::vector<std::string>> read_sentences()
{
    std::map<std::string, std::vector<std::string>> rows;
    std::istringstream table{std::string(call_sentences().front().text)};
    for (std::string line; std::getline(table, line);)
        if (const auto columns = columns_of(line); columns.size() >= 3)
            rows[columns.front()] = {columns.end() - 3, columns.end()};
    return rows;
}

std::vector<CallMistake> read_mistakes()
{
    const auto sentences = read_sentences();
    std::vector<CallMistake> mistakes;
    const Json json = Json::parse(call_edits().front().text);
    for (const auto& [id, edits] : json.items()) {
        const auto row = sentences.find(id);
        if (row == sentences.end())
            throw std::logic_error("src/vectors/calls: docs/calls_table.tsv has no mistake " + id);
        mistakes.push_back({id, row->second[0], row->second[1], row->second[2], {}});
        for (const Json& edit : edits)
            mistakes.back().edits.push_back(edit_of(edit));
    }
    return mistakes;
}

} // namespace

std::optional<std::string> with_names_of(const CallNames& call, std::string text)
{
    constexpr std::string_view of_others[] = {"previous", "newest", "old"};
    for (std::size_t begin = text.find('{'); begin != std::string::npos; begin = text.find('{', begin)) {
        const std::size_t end = text.find('}', begin);
        const std::string name = text.substr(begin + 1, end - begin - 1);
        if (const auto found = call.find(name); found != call.end()) {
            text.replace(begin, end + 1 - begin, found->second);
            begin += found->second.size();
        } else if (std::ranges::find(of_others, name) != std::end(of_others)) {
            return std::nullopt;
        } else {
            ++begin;
        }
    }
    return text;
}

std::string scope_of(std::size_t call) { return "calls." + std::to_string(call) + "."; }

std::tuple<Arrays, Recording, std::vector<CallNames>> run_calls(const PlannedFile& file, const PlannedGroup& group,
                                                                const std::vector<Sizes>& sizes, const Arrays& weights,
                                                                Draws& draws, const RunFunction& run)
{
    const PlannedCalls& plan = *group.calls;
    const auto is_beside = [&](const std::string& name) {
        return std::ranges::find(plan.beside, name) != plan.beside.end();
    };
    CallSteps steps;
    std::vector<CallNames> names;
    const Arrays shared = draw_all(plan.shared, sizes.front(), draws);
    Arrays inputs = shared;
    for (const auto& [name, value] : shared)
        steps.add(name, "", value);

    std::optional<std::size_t> before;
    for (const std::size_t calls : plan.requests) {
        const std::size_t first = names.size();
        const Arrays of_request = draw_all(plan.of_request, sizes[first], draws);
        for (std::size_t call = first; call < first + calls; ++call) {
            names.push_back(names_of(call, first, before, sizes, group.parameters));
            const std::string scope = scope_of(call);
            Arrays own = of_request, taken;
            std::ranges::move(draw_all(group.inputs, sizes[call], draws), std::back_inserter(own));
            for (const auto& [name, value] : own) {
                inputs.emplace_back(scope + name, value);
                if (is_beside(name))
                    steps.add(scope + name, "", value);
                else
                    taken.emplace_back(name, value);
            }
            for (const Formulas& formulas : {call == first ? plan.start : plan.carried, plan.computed})
                for (const auto& [name, formula] : formulas) {
                    const Array& value = steps.add(scope + name, with_names_of(names.back(), formula).value());
                    if (!is_beside(name))
                        taken.emplace_back(name, value);
                }
            for (const auto& [name, value] : shared)
                if (!is_beside(name))
                    taken.emplace_back(name, value);
            steps.add(scope, run(file.module, group.parameters, taken, weights));
        }
        before = names.size() - 1;
    }
    return {std::move(inputs), std::move(steps).take(), std::move(names)};
}

const CallMistake& find_call_mistake(std::string_view id)
{
    static const std::vector<CallMistake> all = read_mistakes();
    const auto found = std::ranges::find(all, id, &CallMistake::id);
    if (found == all.end())
        throw std::logic_error("src/vectors/calls has no mistake " + std::string(id));
    return *found;
}

} // namespace attn::vectors
