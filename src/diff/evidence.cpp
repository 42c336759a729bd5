// What the numbers of MINE's arrays alone say.

#include "evidence.hpp"

#include "attn/core/budget.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/expression.hpp"
#include "compare.hpp"

#include <algorithm>
#include <cmath>

namespace attn::diff {
namespace {

/// True for numbers of another array, and no others.
bool has_numbers_of(const Array& array, const Array& whole)
{
    // Mostly the first number is not among them, and nothing is sorted.
    spend(static_cast<double>(whole.size()));
    if (array.size() > 0 && std::ranges::find(whole.values, array.values.front()) == whole.values.end())
        return false;
    constexpr double operations = 20;
    spend(operations * static_cast<double>(array.size() + whole.size()));
    std::vector<double> numbers = whole.values;
    std::erase_if(numbers, [](double number) { return std::isnan(number); });
    std::ranges::sort(numbers);
    return std::ranges::all_of(array.values, [&](double number) {
        return !std::isnan(number) && std::ranges::binary_search(numbers, number);
    });
}

} // namespace

Evidence::Evidence(const Recording& reference, const ArrayViews& mine)
    : steps_(reference.steps),
      mine_(mine),
      names_(reference),
      targets_(targets_of(reference.steps)),
      allowed_(reference.steps),
      inner_(steps_.size())
{
    for (const auto& [name, array] : mine)
        sizes_.insert({array->size(), array->size() / 2});
}

const Array* Evidence::array(std::string_view name) const
{
    const auto found = mine_.find(name);
    return found == mine_.end() ? nullptr : found->second;
}

bool Evidence::is_mask(std::string_view name) const
{
    const Array* found = array(name);
    return found != nullptr && AllowedKeys::is_mask(*found);
}

bool Evidence::is_count(std::string_view name) const { return are_counts(*array(name)); }

/// True for an array whose numbers tell which step it is.
bool Evidence::tells(std::string_view name) const
{
    const Array* found = array(name);
    return found != nullptr && found->type == ElementType::real && found->size() > 1 && !AllowedKeys::is_mask(*found) &&
           !std::ranges::all_of(found->values, [](double number) { return diff::is_whole(number); });
}

bool Evidence::is_whole(const std::string& name)
{
    return once(is_whole_, name, [&] {
        if (!tells(name))
            return false;
        const Array& found = *array(name);
        const auto is_it = [&, near = right_enough(found)](const Array& right) {
            return merges(right.shape, found.shape) && relative_distance(found, right) <= near;
        };
        return std::ranges::any_of(steps_, is_it, &Step::value) || has_inner_result(is_it);
    });
}

double Evidence::share(const std::string& name)
{
    return once(shares_, name, [&]() -> double {
        if (!tells(name) || is_whole(name))
            return is_whole(name) ? 1 : 0;
        if (!rows_)
            rows_.emplace(steps_);
        return rows_->share(*array(name), right_enough(*array(name)));
    });
}

bool Evidence::is_taken_from(const std::string& name, const std::string& whole)
{
    const Array *part = array(name), *all = array(whole);
    return part != nullptr && all != nullptr &&
           once(is_taken_from_, std::pair(name, whole), [&] { return has_numbers_of(*part, *all); });
}

const std::optional<Fit>& Evidence::fit(const Array& array, const StepSet& target, double near)
{
    const auto [at, is_new] = fits_.try_emplace({&array, &target});
    if (is_new && can_be_as_near(near, length_of(array), target.length)) {
        const auto value = stacked(target, [this](std::size_t step) { return &steps_[step].value; });
        at->second = best_fit(array, target, *value);
    }
    return at->second;
}

const std::vector<Array>& Evidence::inner_results(std::size_t step)
{
    if (!inner_[step])
        inner_[step] = inner_results_from(step, [this](std::size_t i) -> const Array& { return steps_[i].value; });
    return *inner_[step];
}

std::vector<Array> Evidence::inner_results_from(std::size_t step,
                                                const std::function<const Array&(std::size_t)>& value_of) const
{
    if (steps_[step].formula.empty())
        return {};
    const formula::Lookup lookup = [&](std::string_view name) -> const Array* {
        const auto operand = names_.resolve(step, name);
        return operand ? &value_of(*operand) : nullptr;
    };
    std::vector<Array> results;
    try {
        results = formula::inner_values(steps_[step].formula, lookup);
    } catch (const formula::FormulaError&) { // its formula can't be computed: that is said where it is judged
    }
    std::erase_if(results, [this](const Array& value) { return !sizes_.contains(value.size()); });
    return results;
}

} // namespace attn::diff
