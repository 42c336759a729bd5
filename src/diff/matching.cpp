// Which step an array is, by its numbers: names and layouts are the program's own.

#include "matching.hpp"

#include "guess.hpp"
#include "walk.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace attn::diff {
namespace {

/// The order in which arrays are placed: first those that are sure.
class Matcher : public Guesser {
public:
    using Guesser::Guesser;

    std::vector<Match> matches()
    {
        place_used();
        place_right();
        if (has_gradients_) {
            look_for_contributions();
            place_right();
        }
        for (const bool is_twin : {false, true})
            for (std::size_t i = 0; i < names_.size(); ++i)
                if (is_tensor(i) && !is_placed(i) && has_later_twin(i) == is_twin)
                    place_other(i);
        turn_maps();
        return take_matches();
    }

private:
    /// Takes arrays for the steps that MINE uses them as.
    void place_used()
    {
        for (std::size_t i = 0; i < names_.size(); ++i) {
            const auto used = hypothesis_.used_as.find(names_[i]);
            if (used == hypothesis_.used_as.end())
                continue;
            const std::size_t first = step_names_.find(used->second).value();
            for (const Target& target : targets_)
                if (!is_placed(i) && target.first() == first && fits(i, target))
                    place(i, placed_at(target, i), "by its use");
        }
    }

    void place_right()
    {
        for (std::size_t i = 0; i < names_.size(); ++i)
            if (is_tensor(i) && !is_zero(i) && !is_the_result(i) && !is_placed(i))
                if (const auto right = nearest_right(i); right && !is_taken(*right->target))
                    place(i, right, found_by_numbers);
    }

    /// True for an array that a later one has the numbers of: of a gradient that is overwritten, the later one is the whole.
    bool has_later_twin(std::size_t i) const
    {
        for (std::size_t k = i + 1; has_gradients_ && k < names_.size(); ++k)
            if (!is_placed(k) && arrays_[k]->values == arrays_[i]->values)
                return true;
        return false;
    }

    /// An array that is no free step of the reference: right for what MINE has before it, a step once more, or wrong by
    /// itself. Where it has a step's name, it is that step. It can't be one that something right follows from.
    void place_other(std::size_t i)
    {
        const bool is_result = is_the_result(i);
        for (const auto& found : {nearest_following(i), nearest_mistaken(i)})
            if (found && !is_result && !is_zero(i) && !is_taken(*found->target))
                return place(i, found, found_by_numbers);
        if (const auto named = target_of_name(i))
            return place(i, named, "by its name");
        if (const auto scores = is_result ? std::nullopt : nearest_shifted(i)) {
            if (!is_taken(*scores->target))
                place_shifted(i, *scores);
            return;
        }
        if (const auto result = as_result(i))
            return place(i, result, "by its place, the last");
        auto again = is_result || is_zero(i) ? std::nullopt : nearest_right(i);
        if (again && says_gradient(i) && words_in_common(meanings_[i], again->target->text) == 0)
            again.reset(); // dxhat, without the gain, is dout once more
        const auto guess = best_guess(i);
        if (again && (!guess || words_in_common(meanings_[i], guess->target->text) == 0))
            place(i, again, found_by_numbers);
        else if (guess)
            place(i, guess, "by its shape, place and name");
        else
            place_unsummed(i);
    }

    /// The step whose name an array has.
    std::optional<Placed> target_of_name(std::size_t i)
    {
        const auto step = step_of_name(i);
        for (const Target& target : targets_)
            if ((target.text == meanings_[i] || (step && target.steps == std::vector{*step})) &&
                target.size == arrays_[i]->size() && !is_taken(target))
                return placed_at(target, i);
        return std::nullopt;
    }

    /// The gradient that an array is called: by its path, by the end of the only path with that end, or by its words.
    std::optional<std::size_t> step_of_name(std::size_t i) const
    {
        if (!says_gradient(i))
            return std::nullopt;
        if (const auto step = step_names_.find(meanings_[i]))
            return step;
        const std::string_view end =
            std::string_view(meanings_[i]).substr(formula::gradient_scope.size() - 1); // with the dot
        const auto has_end = [&](const Target& target) { return target.text.ends_with(end); };
        const auto has_word = [&](const Target& target) {
            return is_summed(target) && words_in_common(meanings_[i], target.text) > 0;
        };
        const auto by_end = only_target(has_end);
        return by_end ? by_end : only_target(has_word);
    }

    /// The only gradient of one step that fits.
    template <class Fits>
    std::optional<std::size_t> only_target(const Fits& fits) const
    {
        std::optional<std::size_t> only;
        for (const Target& target : targets_) {
            if (target.steps.size() > 1 || !target.text.starts_with(formula::gradient_scope) ||
                is_contribution(target) || !fits(target))
                continue;
            if (only && *only != target.first())
                return std::nullopt;
            only = target.first();
        }
        return only;
    }

    /// True for the gradient of a bias or a gain, which is summed over all tokens: its shape says what it is not.
    static bool is_summed(const Target& target)
    {
        return target.text.starts_with(formula::gradient_scope) &&
               (target.text.ends_with("bias") || target.text.ends_with("gain"));
    }

    /// An array that is called the gradient of a step and has another number of entries: it was not summed.
    void place_unsummed(std::size_t i)
    {
        const auto step = says_gradient(i) ? step_of_name(i) : std::nullopt;
        if (step && own(*step) == nullptr && steps_[*step].value.size() != arrays_[i]->size())
            place_misshapen(i, *step);
    }

    /// The last array is the result, where MINE has no other one for that.
    std::optional<Placed> as_result(std::size_t i)
    {
        if (result_ == nullptr || i + 1 != names_.size() || !(in_order_ || names_.size() == 1))
            return std::nullopt;
        const Target& result = *result_;
        return fits(i, result) && !is_taken(result) ? placed_at(result, i) : std::nullopt;
    }

    /// A program has all maps as (d_in, d_out), or all as (d_out, d_in). The numbers of a square one fit both ways.
    void turn_maps()
    {
        for (std::size_t i = 0; i < names_.size(); ++i) {
            const Placed& at = placed(i);
            if (!is_map_gradient(at) || !is_square(*at.target))
                continue;
            const std::optional<bool> others = are_maps_turned_but(i);
            if (others && *others != is_turned(at.fit))
                turn(i);
        }
    }

    static bool is_map_gradient(const Placed& placed)
    {
        return placed.target != nullptr && is_map(*placed.target) &&
               placed.target->text.starts_with(formula::gradient_scope);
    }

    bool is_near(std::size_t i) const { return placed(i).fit.distance <= near_enough(*arrays_[i]); }

    /// Whether MINE has maps as (d_out, d_in), as far as others tell than one gradient: the map itself, or right
    /// gradients that are all stored in the same way. To contradict right numbers, these have to be two.
    std::optional<bool> are_maps_turned_but(std::size_t i) const
    {
        const std::string of = placed(i).target->text.substr(formula::gradient_scope.size());
        std::size_t turned = 0, all = 0;
        for (std::size_t k = 0; k < names_.size(); ++k)
            if (is_placed(k) && placed(k).target->text == of && is_near(k))
                return is_turned(placed(k).fit);
        for (std::size_t k = 0; k < names_.size(); ++k)
            if (k != i && is_map_gradient(placed(k)) && is_near(k)) {
                all += placed(k).target->steps.size();
                turned += is_turned(placed(k).fit) ? placed(k).target->steps.size() : 0;
            }
        const bool is_told = all > (is_near(i) ? 1 : 0) && (turned == 0 || turned == all);
        return is_told ? std::optional(turned == all) : std::nullopt;
    }
};

} // namespace

Matches match_by_numbers(const Recording& reference, const ArrayViews& mine, const std::vector<Claim>& known,
                         const std::vector<std::string>& names, const MyGraph& graph, const Hypothesis& hypothesis)
{
    if (graph.knows_reads()) {
        Walk walk(reference, mine, graph, names, hypothesis);
        walk.know(known);
        return walk.matches();
    }
    Matcher matcher(reference, mine, graph, names, hypothesis);
    matcher.know(known);
    return {matcher.matches()};
}

} // namespace attn::diff
