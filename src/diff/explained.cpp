// What speaks for each of MINE's arrays, where these say what they were computed from.

#include "explained.hpp"

#include "attn/mistakes/head_scope.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace attn::diff {
namespace {

/// True for the numbers of another array in the same order, its axes as they are or split.
bool is_split(const Array& array, const Array& whole)
{
    std::size_t at = 0;
    for (std::size_t size : whole.shape)
        for (std::size_t left = size; left > 1;) {
            while (at < array.rank() && array.shape[at] == 1)
                ++at;
            if (at == array.rank() || left % array.shape[at] != 0)
                return false;
            left /= array.shape[at++];
        }
    return array.values == whole.values;
}

} // namespace

Explained::Reason Explained::reason_of(const std::string& name)
{
    if (is_a_step(name))
        return is_wrong_claim(name) ? Reason::none : Reason::step;
    if (evidence_.array(name) == nullptr)
        return Reason::not_saved;
    if (std::exchange(reasons_at_, changes()) != changes())
        reasons_.clear();
    const auto known = reasons_.find(name);
    if (known != reasons_.end())
        return known->second;
    const Reason reason = found_reason(name);
    return reasons_[name] = reason;
}

Explained::Reason Explained::found_reason(const std::string& name)
{
    const Array& array = *evidence_.array(name);
    if (is_needed(name))
        return Reason::needed;
    if (evidence_.is_mask(name))
        return evidence_.allowed().permit(array) ? Reason::mask : Reason::none;
    if (evidence_.is_count(name))
        return Reason::count;
    if (evidence_.is_whole(name))
        return Reason::whole;
    if (evidence_.share(name) > 0)
        return Reason::rows;
    if (hypothesis_.no_step.contains(name))
        return Reason::look_alike;
    if (is_part(name))
        return Reason::part;
    if (is_half(array))
        return Reason::half;
    if (is_inside_a_step(array))
        return Reason::inside;
    return is_longer(array) ? Reason::longer : Reason::none;
}

bool Explained::is_right(const std::string& name)
{
    const auto i = static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
    if (evidence_.is_right(name) || i == names_.size() || !is_placed(i))
        return evidence_.is_right(name);
    const auto& fit = evidence_.fit(*arrays_[i], *placed(i).target, near_enough(*arrays_[i]));
    return fit && fit->distance <= right_enough(*arrays_[i]);
}

bool Explained::is_needed(const std::string& name)
{
    if (!needed_) {
        needed_.emplace();
        for (auto one = graph_.order().rbegin(); one != graph_.order().rend(); ++one)
            if (needed_->contains(*one) || (is_right(*one) && beside_repeated(*one).empty()))
                needed_->merge(needed_for(*one));
    }
    return needed_->contains(name);
}

Explained::Names Explained::needed_for(const std::string& name)
{
    const std::vector<std::string>& reads = graph_.reads(name);
    Names all(reads.begin(), reads.end()), sources;
    for (const std::string& read : all)
        if (all.size() > 1 && evidence_.is_taken_from(name, read))
            sources.insert(read);
    return sources.empty() ? all : sources;
}

bool Explained::is_half(const Array& array)
{
    const auto half = half_of(array);
    const auto has_its_numbers = [&](const Step& step) {
        return relative_distance(*half, step.value) <= right_enough(*half);
    };
    return half && (std::ranges::any_of(steps_, has_its_numbers) || is_inside_a_step(*half));
}

bool Explained::is_longer(const Array& array)
{
    const auto are_its_first = [&](const Array& rows) {
        if (rows.rank() < 2 || rows.size() >= array.size() || row_length(rows) != row_length(array) ||
            rows.rank() != array.rank())
            return false;
        const auto end = array.values.begin() + static_cast<std::ptrdiff_t>(rows.size());
        return relative_distance({rows.shape, {array.values.begin(), end}, array.type}, rows) <= right_enough(array);
    };
    return std::ranges::any_of(steps_, are_its_first, &Step::value) || evidence_.has_inner_result(are_its_first);
}

bool Explained::is_part(const std::string& name)
{
    const Array& array = *evidence_.array(name);
    return std::ranges::any_of(graph_.reads(name), [&](const std::string& read) {
        const Array* whole = evidence_.array(read);
        return whole != nullptr && is_explained(read) &&
               (is_split(array, *whole) || (array.size() < whole->size() && evidence_.is_taken_from(name, read)));
    });
}

Explained::Names Explained::explained()
{
    needed_.reset(); // more is right than when arrays were looked for
    reasons_.clear();
    Names explained, doubted;
    for (const std::string& name : graph_.order()) {
        if (is_explained(name))
            explained.insert(name);
        doubted.merge(doubted_by(name));
    }
    for (const std::string& name : doubted)
        if (!is_needed(name))
            explained.erase(name);
    return explained;
}

Explained::Names Explained::right()
{
    Names right;
    std::ranges::copy_if(graph_.order(), std::inserter(right, right.end()),
                         [this](const std::string& name) { return is_right(name); });
    return right;
}

Explained::Names Explained::doubted_by(const std::string& name)
{
    Names doubted;
    const Reason reason = reason_of(name);
    if (((reason == Reason::rows || reason == Reason::part) && is_cut(name) && !is_put_beside_others(name)) ||
        (reason == Reason::mask && !evidence_.allowed().say(*evidence_.array(name))))
        doubted.insert(name); // other rows, or other keys, can be missing
    if (Names beside = beside_repeated(name); !beside.empty() && !is_needed(name)) {
        doubted.insert(name);
        doubted.merge(beside);
    }
    const auto i = static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
    if (i < names_.size() && is_placed(i) && !is_right(name) && has_other_sources(i))
        doubted.merge(chosen_for(name));
    return doubted;
}

Explained::Names Explained::chosen_for(const std::string& name)
{
    Names chosen;
    for (const std::string& one : before(name))
        for (const std::string& read : graph_.reads(one)) {
            const bool is_own = graph_.are_of_one_call(read, name); // its line chose that one
            if (!is_a_step(read) || (is_own && !is_computed_again(read)))
                continue;
            chosen.insert(read);
            if (is_own)
                chosen.merge(chosen_for(read));
        }
    return chosen;
}

bool Explained::is_computed_again(const std::string& name)
{
    const Names sources = graph_.all_before(name, [](const std::string&) { return false; });
    for (const std::string& other : graph_.order()) {
        if (other == name)
            return false;
        if (is_a_step(other) && steps_of(other) == steps_of(name) && !sources.contains(other))
            return true;
    }
    return false;
}

Explained::Names Explained::before(const std::string& name) const
{
    return graph_.all_before(name, [this](const std::string& one) { return is_a_step(one); });
}

Explained::Names Explained::beside_repeated(const std::string& name) const
{
    Names others;
    const std::vector<std::string>& reads = graph_.reads(name);
    const auto is_same_step = [&](const std::string& read) {
        return is_a_step(read) && steps_of(read) == steps_of(name);
    };
    if (is_a_step(name) && std::ranges::any_of(reads, is_same_step))
        std::ranges::copy_if(reads, std::inserter(others, others.end()), [this](const std::string& read) {
            return !is_a_step(read) && evidence_.array(read) != nullptr;
        });
    return others;
}

bool Explained::is_cut(const std::string& name)
{
    const double share = evidence_.share(name);
    double most = 0;
    for (const std::string& read : graph_.reads(name)) {
        const Array* whole = evidence_.array(read);
        if (whole != nullptr && (is_split(*evidence_.array(name), *whole) || is_one_of_all_parts(name, read)))
            return false;
        most = std::max(most, evidence_.share(read));
    }
    return most == 0 || share < most;
}

bool Explained::is_one_of_all_parts(const std::string& name, const std::string& whole)
{
    std::multiset<double> left(evidence_.array(whole)->values.begin(), evidence_.array(whole)->values.end());
    const auto is_part = [&](const std::string& one) {
        return graph_.are_of_one_call(one, name) && graph_.reads(one) == graph_.reads(name) &&
               evidence_.is_taken_from(one, whole);
    };
    for (const std::string& one : graph_.order())
        if (is_part(one))
            for (const double number : evidence_.array(one)->values)
                if (const auto at = left.find(number); at != left.end())
                    left.erase(at);
    return left.empty() && is_part(name);
}

bool Explained::is_put_beside_others(const std::string& name)
{
    return std::ranges::any_of(graph_.order(), [&](const std::string& reader) {
        const auto& reads = graph_.reads(reader);
        return std::ranges::find(reads, name) != reads.end() && evidence_.is_taken_from(name, reader) &&
               !evidence_.is_taken_from(reader, name);
    });
}

bool Explained::has_other_sources(std::size_t i)
{
    const StepSet& target = *placed(i).target;
    const std::set<std::size_t> read = steps_before(i);
    const auto is_read = [&](std::size_t step) { return read.contains(step); };
    if (std::ranges::all_of(target.steps, is_read))
        return false; // the same once more
    const std::string scope = module_of(target.first());
    const std::set<std::size_t> between = known_before_until(target, is_read);
    const auto is_for_masks = [&](std::size_t step) { return steps_[step].value.type == ElementType::boolean; };
    const auto is_past = [&](std::size_t step) {
        return !steps_[step].formula.empty() && !is_for_masks(step) &&
               (own(step) != nullptr || !module_of(step).starts_with(scope));
    };
    const auto can_mask = [this](const std::string& name) {
        return evidence_.array(name) != nullptr && (evidence_.is_mask(name) || evidence_.is_count(name));
    };
    return distance_by_reads(i, target).foreign > 0 || std::ranges::any_of(between, is_past) ||
           ((has_missing_source(i, target) || std::ranges::any_of(between, is_for_masks)) &&
            std::ranges::none_of(before(names_[i]), can_mask));
}

std::string Explained::module_of(std::size_t step) const
{
    const auto head = mistakes::head_scope(steps_[step].path);
    return head ? std::string(head->before) : steps_[step].path.substr(0, steps_[step].path.rfind('.') + 1);
}

} // namespace attn::diff
