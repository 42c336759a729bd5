#include "guess.hpp"

#include "softmax.hpp"

#include <algorithm>
#include <utility>

namespace attn::diff {
namespace {

// So many of the targets that a wrong array can be, the likeliest ones, are judged by what would follow from it.
constexpr std::size_t most_candidates = 12;
// How many of the other arrays are asked whether they follow from it.
constexpr std::size_t most_followers = 3;

bool is_in_layer(std::string_view path) { return path.find("layers.") != std::string_view::npos; }

} // namespace

Guesser::Guesser(const Recording& reference, const ArrayViews& mine, const MyGraph& graph,
                 const std::vector<std::string>& names, const Hypothesis& hypothesis)
    : Placement(reference, mine, graph, names, hypothesis),
      masked_axes_(masked_axes(targets_)),
      has_layers_(std::ranges::any_of(steps_, is_in_layer, &Step::path))
{
}

std::optional<Placed> Guesser::best_guess(std::size_t i)
{
    if (!says_gradient(i) && has_gradients_ && !has_any(false))
        return has_any(true) ? only_gradient_left(i) : std::nullopt;
    if (!says_gradient(i) && !hypothesis_.guesses)
        return std::nullopt;
    std::vector<std::pair<double, Placed>> candidates;
    const std::set<std::size_t> never = innocent();
    const auto is_innocent = [&](std::size_t step) { return never.contains(step); };
    for (const Target& target : targets_)
        if (can_be_meant(i, target) && !std::ranges::all_of(target.steps, is_innocent))
            if (const auto placed = placed_at(target, i))
                candidates.emplace_back(likelihood(i, *placed), *placed);
    const auto by_score = [](const auto& left, const auto& right) { return left.first > right.first; };
    std::ranges::stable_sort(candidates, by_score);
    candidates.resize(std::min(candidates.size(), most_candidates));
    constexpr double of_follower = 4;
    for (auto& [score, placed] : candidates)
        score += of_follower * static_cast<double>(followers_of(i, placed));
    std::ranges::stable_sort(candidates, by_score);
    return candidates.empty() ? std::nullopt : std::optional(candidates.front().second);
}

bool Guesser::can_be_meant(std::size_t i, const Target& target) const
{
    return fits(i, target) && !is_taken(target) && !is_of_other_layer(names_[i], target.text) &&
           !is_outside_layers(i, target) && (can_be_masked(target) || !is_masked(*arrays_[i])) &&
           (says_gradient(i) ? can_be_this_gradient(i, target) : can_be_this_step(i, target));
}

bool Guesser::can_be_this_gradient(std::size_t i, const Target& target) const
{
    return words_in_common(meanings_[i], target.text) > 0 &&
           (hypothesis_.guesses || is_gradient_of_input(target) || begins_with(i, target));
}

bool Guesser::can_be_this_step(std::size_t i, const Target& target) const
{
    return !steps_[target.first()].formula.empty() && (!is_ordered() || is_between_neighbours(i, target));
}

std::optional<Placed> Guesser::only_gradient_left(std::size_t i)
{
    constexpr double trained_on = 0.5; // of the weight before
    std::optional<Placed> only;
    for (const Target& target : targets_) {
        if (!fits(i, target) || !is_gradient_of_input(target) || is_taken(target))
            continue;
        const std::size_t of = *step_names_.find(steps_[target.first()].path.substr(formula::gradient_scope.size()));
        const auto weight = best_fit(*arrays_[i], target, steps_[of].value);
        const bool is_other = only && only->target->first() != target.first();
        if (is_other || (weight && weight->distance < trained_on))
            return std::nullopt;
        if (!only)
            only = placed_at(target, i);
    }
    return only;
}

bool Guesser::is_gradient_of_input(const Target& target) const
{
    const std::string& path = steps_[target.first()].path;
    const auto of = path.starts_with(formula::gradient_scope)
                        ? step_names_.find(path.substr(formula::gradient_scope.size()))
                        : std::nullopt;
    return of && steps_[*of].formula.empty();
}

bool Guesser::begins_with(std::size_t i, const Target& target) const
{
    const auto first = std::ranges::find_if(
        meanings_, [](const std::string& meaning) { return meaning.starts_with(formula::gradient_scope); });
    return in_order_ && first - meanings_.begin() == static_cast<std::ptrdiff_t>(i) &&
           steps_[target.first()].formula.empty() && target.text.starts_with(formula::gradient_scope);
}

bool Guesser::has_any(bool of_gradients) const
{
    for (std::size_t step = 0; step < steps_.size(); ++step)
        if (own(step) != nullptr && steps_[step].path.starts_with(formula::gradient_scope) == of_gradients)
            return true;
    return false;
}

bool Guesser::can_be_masked(const Target& target) const
{
    return masked_axes_.empty() || target.letters.empty() || masked_axes_.contains(target.letters.back());
}

bool Guesser::is_outside_layers(std::size_t i, const Target& target) const
{
    return has_layers_ && !is_in_layer(target.text) && says_layer(names_[i]);
}

bool Guesser::is_ordered() const
{
    std::size_t last = 0;
    for (std::size_t i = 0; i < names_.size(); ++i) {
        if (!is_placed(i))
            continue;
        if (placed(i).target->first() < last)
            return false;
        last = placed(i).target->first();
    }
    return in_order_;
}

double Guesser::likelihood(std::size_t i, const Placed& placed) const
{
    constexpr double of_word = 2, of_end = 3, of_place = 1, of_shape = 0.5;
    const Target& target = *placed.target;
    double score = 1 / (1 + placed.fit.distance);
    score += of_word * static_cast<double>(words_in_common(meanings_[i], target.text));
    if (target.shape == arrays_[i]->shape)
        score += of_shape;
    if (i + 1 == names_.size() && &target == result_)
        score += of_end;
    if (in_order_ && is_between_neighbours(i, target))
        score += of_place;
    return score;
}

bool Guesser::is_between_neighbours(std::size_t i, const Target& target) const
{
    for (std::size_t k = 0; k < names_.size(); ++k)
        if (is_placed(k) && k != i && (placed(k).target->first() < target.first()) != (k < i))
            return false;
    return true;
}

std::size_t Guesser::followers_of(std::size_t i, const Placed& placed)
{
    place(i, placed, "");
    std::size_t asked = 0, follow = 0;
    for (std::size_t k = 0; k < names_.size() && asked < most_followers; ++k)
        if (k != i && is_tensor(k) && !is_placed(k)) {
            ++asked;
            follow += nearest_following(k) ? 1 : 0;
        }
    unplace(i);
    return follow;
}

} // namespace attn::diff
