// Whether an array's rows are rows of a step.

#include "rows.hpp"

#include "attn/core/budget.hpp"
#include "attn/mistakes/head_scope.hpp"
#include "compare.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>

namespace attn::diff {
namespace {

/// The length of a row; of a column of single numbers, that of the column.
std::size_t telling_length(const Array& array)
{
    for (std::size_t axis = array.rank(); axis-- > 0;)
        if (array.shape[axis] > 1)
            return array.shape[axis];
    return 1;
}

double largest_finite(std::span<const double> row)
{
    double largest = 0;
    for (const double number : row)
        if (std::isfinite(number))
            largest = std::max(largest, std::abs(number));
    return largest;
}

bool tells(std::span<const double> row)
{
    return std::ranges::any_of(row, [&](double number) { return number != row.front() && std::isfinite(number); });
}

/// What a row that does not tell has throughout; minus infinity for whatever stands for it.
double filled_with(std::span<const double> row)
{
    constexpr double most_of_masks = -1000;
    return row.front() > most_of_masks ? row.front() : minus_infinity;
}

} // namespace

Rows::Rows(const std::vector<Step>& steps) : steps_(steps)
{
    std::map<std::string, std::size_t> kinds;
    for (std::size_t step = 0; step < steps.size(); ++step) {
        const auto head = mistakes::head_scope(steps[step].path);
        const std::string kind =
            head ? std::string(head->before) + "head." + std::string(head->rest) : steps[step].path;
        const Array& array = steps[step].value;
        kinds_.push_back(kinds.emplace(kind, kinds.size()).first->second);
        sizes_.resize(kinds.size(), 0);
        sizes_[kinds_.back()] += array.size();
        const std::size_t length = telling_length(array);
        if (array.type != ElementType::real || length < 2)
            continue;
        for (std::size_t begin = 0; begin < array.size(); begin += length) {
            rows_.push_back({array.values[begin], step, begin, length});
            if (const auto row = std::span(array.values).subspan(begin, length); !tells(row))
                constants_.emplace(kinds_.back(), filled_with(row));
        }
    }
    std::erase_if(rows_, [](const Row& row) { return std::isnan(row.first); });
    std::ranges::sort(rows_, {}, &Row::first);
    constexpr double operations = 30;
    spend(operations * static_cast<double>(rows_.size()));
}

/// The kinds of the steps that have such a row.
std::vector<std::size_t> Rows::starts_at(const Array& array, std::size_t begin, std::size_t length, double near) const
{
    const auto row = std::span(array.values).subspan(begin, length);
    const double allowed = near * largest_finite(row);
    const auto is_near = [&](double found, double right) {
        return found == right || std::abs(found - right) <= allowed;
    };
    std::vector<std::size_t> kinds;
    auto at = std::ranges::lower_bound(rows_, row.front() - allowed, {}, &Row::first);
    std::size_t looked_at = 0;
    for (; at != rows_.end() && is_near(row.front(), at->first); ++at, ++looked_at) {
        const auto right = std::span(steps_[at->step].value.values).subspan(at->begin, at->length);
        if (length <= at->length && std::equal(row.begin(), row.end(), right.begin(), is_near))
            kinds.push_back(kinds_[at->step]);
    }
    constexpr double operations = 100, operations_each = 4;
    spend(operations + operations_each * static_cast<double>(looked_at + length));
    return kinds;
}

double Rows::share(const Array& array, double near) const
{
    constexpr std::size_t fewest = 3; // numbers; two are near to others by chance
    const std::size_t length = telling_length(array);
    if (array.type != ElementType::real || length < fewest)
        return 0;
    std::vector<std::size_t> common;
    std::set<double> constants;
    bool is_first = true;
    for (std::size_t begin = 0; begin < array.size(); begin += length) {
        if (const auto row = std::span(array.values).subspan(begin, length); !tells(row)) {
            constants.insert(filled_with(row)); // as of masked scores, which many steps have
            continue;
        }
        std::vector<std::size_t> kinds = starts_at(array, begin, length, near);
        if (!is_first)
            std::erase_if(kinds, [&](std::size_t kind) { return std::ranges::find(common, kind) == common.end(); });
        is_first = false;
        common = std::move(kinds);
        if (common.empty())
            return 0;
    }
    std::erase_if(common, [&](std::size_t kind) {
        const auto is_its = [&](double number) { return constants_.contains({kind, number}); };
        return !std::ranges::all_of(constants, is_its);
    });
    double share = 0;
    for (const std::size_t kind : common)
        if (array.size() < sizes_[kind]) // all rows of a step in another order are not that step
            share = std::max(share, static_cast<double>(array.size()) / static_cast<double>(sizes_[kind]));
    return share;
}

} // namespace attn::diff
