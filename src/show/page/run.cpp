#include "run.hpp"

#include "attn/core/budget.hpp"
#include "attn/formula/explain.hpp"
#include "attn/formula/expression.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace attn::show {
namespace {

// How many numbers stay in memory that are not needed at the moment: 512 MiB.
constexpr std::size_t most_held = std::size_t{1} << 26;

/// Calls take(name) for each name in an expression.
template <class Take>
void for_each_name(const formula::Expression& expression, const Take& take)
{
    if (expression.kind == formula::Expression::Kind::name)
        take(expression);
    for (const formula::Expression* part : formula::parts_of(expression))
        for_each_name(*part, take);
}

/// Offsets as [start, stride, count, start, stride, count, …].
Json ranges_of(const std::vector<std::size_t>& offsets)
{
    Json ranges = Json::array();
    for (std::size_t at = 0; at < offsets.size();) {
        const auto step = [&](std::size_t i) {
            return static_cast<std::ptrdiff_t>(offsets[i]) - static_cast<std::ptrdiff_t>(offsets[i - 1]);
        };
        const std::ptrdiff_t stride = at + 1 < offsets.size() ? step(at + 1) : 0;
        std::size_t count = 1;
        while (at + count < offsets.size() && step(at + count) == stride)
            ++count;
        ranges.insert(ranges.end(), {offsets[at], stride, count});
        at += count;
    }
    return ranges;
}

/// The cells by their steps, in the order in which these come first.
Json cells_json(const std::vector<formula::Explanation::Cell>& cells, const std::vector<Step>& steps)
{
    std::vector<std::pair<const Step*, std::vector<std::size_t>>> by_step;
    for (const formula::Explanation::Cell& cell : cells) {
        auto found = std::ranges::find(by_step, cell.step, [](const auto& entry) { return entry.first; });
        if (found == by_step.end())
            found = by_step.insert(by_step.end(), {cell.step, {}});
        found->second.push_back(cell.offset);
    }
    Json json = Json::array();
    for (const auto& [step, offsets] : by_step)
        json.push_back({step - steps.data(), ranges_of(offsets)});
    return json;
}

} // namespace

ShownRun::ShownRun(std::string title, Recording recording)
    : title_(std::move(title)), recording_(std::move(recording)), names_(recording_)
{
}

ShownRun::ShownRun(std::string title, std::unique_ptr<const files::TraceReader> file)
    : title_(std::move(title)), recording_(file->outline()), names_(recording_), file_(std::move(file))
{
}

const Array& ShownRun::value(std::size_t step)
{
    hold({step});
    return recording_.steps[step].value;
}

ReadFormula ShownRun::read_formula(std::size_t step) const
{
    const std::string& formula = recording_.steps[step].formula;
    ReadFormula read;
    if (formula.empty())
        return read;
    try {
        for_each_name(formula::parse_formula(formula), [&](const formula::Expression& name) {
            if (const std::optional<std::size_t> found = names_.resolve(step, name.text))
                read.links.push_back({name.position, name.text.size(), *found});
        });
        std::ranges::sort(read.links, {}, &FormulaLink::at);
    } catch (const formula::FormulaError& error) {
        read.problem = error.what();
    }
    return read;
}

ShownExplanation ShownRun::explained(std::size_t step, std::size_t offset)
{
    std::set<std::size_t> needed{step};
    for (const FormulaLink& link : read_formula(step).links)
        needed.insert(link.step);
    try {
        hold({needed.begin(), needed.end()});
        const formula::Explanation explanation = formula::explain(recording_, names_, recording_.steps[step], offset);
        const std::string text = formula::to_text(explanation);
        return {{{"text", text}, {"cells", cells_json(explanation.cells, recording_.steps)}},
                text.size() + 4 * explanation.cells.size()};
    } catch (const BudgetError&) {
        throw;
    } catch (const Error& error) {
        return {{{"text", std::string(error.what()) + "\n"}, {"cells", Json::array()}}, 100};
    }
}

/// Reads what is needed, and forgets what was needed longest ago where that would be too much.
void ShownRun::hold(const std::vector<std::size_t>& steps)
{
    if (file_ == nullptr)
        return;
    std::erase_if(held_, [&](std::size_t step) { return std::ranges::find(steps, step) != steps.end(); });
    held_.insert(held_.end(), steps.begin(), steps.end());
    std::size_t total = 0;
    for (const std::size_t step : held_)
        total += element_count(recording_.steps[step].value.shape);
    while (total > most_held && held_.size() > steps.size()) {
        Array& forgotten = recording_.steps[held_.front()].value;
        total -= element_count(forgotten.shape);
        std::exchange(forgotten.values, {});
        held_.erase(held_.begin());
    }
    for (const std::size_t step : steps)
        if (Array& value = recording_.steps[step].value; value.values.empty())
            value = file_->value(step);
}

} // namespace attn::show
