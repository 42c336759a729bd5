#pragma once

#include "masks.hpp"
#include "names.hpp"
#include "rows.hpp"
#include "targets.hpp"

#include "attn/formula/scope.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attn::diff {

/// What the numbers of MINE's arrays alone say, whatever an array is taken for. It is found out once for all that is tried.
class Evidence {
public:
    /// Both outlive this.
    Evidence(const Recording& reference, const ArrayViews& mine);

    const std::vector<Step>& steps() const { return steps_; }
    const ArrayViews& mine() const { return mine_; }
    const formula::StepNames& names() const { return names_; }
    const std::vector<StepSet>& targets() const { return targets_; }
    const AllowedKeys& allowed() const { return allowed_; }

    /// MINE's array of a name; nullptr where it has none.
    const Array* array(std::string_view name) const;

    bool is_mask(std::string_view name) const;

    /// True for whole numbers, which say nothing of the step: counts, ids, lengths, masks.
    bool is_count(std::string_view name) const;

    /// True for the numbers of a step, or of what a formula gives on the way to one.
    bool is_whole(const std::string& name);

    /// How much of a step an array is: 1 where it is whole, less where it has some of its rows, or beginnings of these.
    double share(const std::string& name);

    bool is_right(const std::string& name) { return share(name) > 0; }

    /// True where an array has only numbers that another one has, too.
    bool is_taken_from(const std::string& name, const std::string& whole);

    /// The layout in which an array is nearest to the reference's numbers of a target; nothing where none is near.
    const std::optional<Fit>& fit(const Array& array, const StepSet& target, double near);

    /// What the formula of a step computes on the way to its value, as far as MINE can have it by its size.
    const std::vector<Array>& inner_results(std::size_t step);

    /// The same from other operands.
    /// @param value_of  from the number of a step to its array
    std::vector<Array> inner_results_from(std::size_t step,
                                          const std::function<const Array&(std::size_t)>& value_of) const;

    template <class IsMeant>
    bool has_inner_result(const IsMeant& is_meant)
    {
        for (std::size_t step = 0; step < steps_.size(); ++step)
            if (std::ranges::any_of(inner_results(step), is_meant))
                return true;
        return false;
    }

private:
    bool tells(std::string_view name) const;

    template <class Key, class Value, class Find>
    static Value once(std::map<Key, Value>& known, const Key& key, const Find& find)
    {
        const auto at = known.find(key);
        return at != known.end() ? at->second : (known[key] = find());
    }

    const std::vector<Step>& steps_;
    const ArrayViews& mine_;
    const formula::StepNames names_;
    const std::vector<StepSet> targets_;
    const AllowedKeys allowed_;
    std::set<std::size_t> sizes_;                          ///< that MINE's arrays have, and halves of these
    std::optional<Rows> rows_;                             ///< once they were asked for
    std::vector<std::optional<std::vector<Array>>> inner_; ///< by step, the same
    std::map<std::string, bool> is_whole_;
    std::map<std::string, double> shares_;
    std::map<std::pair<std::string, std::string>, bool> is_taken_from_;
    std::map<std::pair<const Array*, const StepSet*>, std::optional<Fit>> fits_;
};

} // namespace attn::diff
