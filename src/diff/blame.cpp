// Which line of MINE is to blame.

#include "blame.hpp"

#include "compare.hpp"
#include "evidence.hpp"
#include "world.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace attn::diff {
namespace {

using Names = std::set<std::string, std::less<>>;

/// An array that is to blame.
struct Cause {
    std::string name;
    bool is_choice = false; ///< of right arrays that a call in its line was given
};

/// MINE's graph, and which of its arrays are explained.
class Ancestry {
public:
    explicit Ancestry(const Diff::World& world)
        : graph_(world.mine->graph()),
          evidence_(graph_.evidence(world.mine->reference(), world.mine->views())),
          names_(world.claims.explained),
          right_(world.claims.right),
          origins_(world.mine->listing().origins),
          calls_(world.mine->listing().calls)
    {
        for (const std::string& name : graph_.order()) {
            place_.emplace(name, place_.size());
            if (right_.contains(name) && names_.contains(name))
                lines_.insert(line_of(name));
        }
    }

    /// Those that are not explained, from an array back to what is; itself, too.
    Names open_before(const std::string& name) const
    {
        return graph_.all_before(name, [&](const std::string& one) { return one != name && names_.contains(one); });
    }

    /// The first array on the way to a wrong one that is surely wrong: it, or one whose line makes a step in another call, or layer.
    std::string first_wrong(const std::string& wrong) const
    {
        std::string first = wrong;
        for (const std::string& name : open_before(wrong))
            if (place_of(name) < place_of(first) && !right_.contains(name) && lines_.contains(line_of(name)))
                first = name;
        return first;
    }

    /// The array that makes another one wrong. Where that one's line makes a right array elsewhere, it is what it was computed from
    /// that is wrong: if that is one array, beside right ones, then this one. Where only the choice of right ones is left, it is the
    /// call that they were given to.
    Cause cause_of(const std::string& wrong) const
    {
        std::string name = wrong;
        while (lines_.contains(line_of(name))) {
            std::string only;
            for (const std::string& read : graph_.reads(name)) {
                if (names_.contains(read) && right_.contains(read))
                    continue;
                if (names_.contains(read) || !only.empty())
                    return {wrong};
                only = read;
            }
            if (only.empty()) {
                const auto call = name == wrong ? std::nullopt : assigned_by_caller(name);
                return {call.value_or(wrong), call.has_value()};
            }
            name = only;
        }
        return {name};
    }

    /// The last array before the first of some that is known to be right; empty where there is none. Whole numbers that MINE
    /// computed tell nothing. Where the first has some of an explained array's numbers, and no step's, what chose these is not
    /// recorded, and can be anything since the inputs.
    std::string last_right(const Names& open) const
    {
        const auto by_place = [this](const std::string& one) { return place_of(one); };
        const std::string& first = *std::ranges::min_element(open, {}, by_place);
        const bool is_chosen = std::ranges::any_of(graph_.reads(first), [&](const std::string& read) {
            return names_.contains(read) && evidence_.share(first) == 0 && evidence_.is_taken_from(first, read) &&
                   evidence_.array(first)->size() < evidence_.array(read)->size();
        });
        const auto is_known = [&](const std::string& name) {
            const bool is_given = graph_.reads(name).empty() || evidence_.array(name) == nullptr;
            return names_.contains(name) && (is_given || (!is_chosen && !evidence_.is_count(name)));
        };
        std::string last;
        for (const std::string& name : open)
            for (const std::string& one : graph_.all_before(name, is_known))
                for (const std::string& read : graph_.reads(one))
                    if (is_known(read) && place_of(read) < place_of(first) &&
                        (last.empty() || place_of(last) < place_of(read)))
                        last = read;
        return last;
    }

    /// The right step that a call returned and that an array is once more: which of them should have been another step, nothing tells.
    std::optional<std::string> returned_as(const std::string& name) const
    {
        const Array* array = evidence_.array(name);
        const auto is_it = [&](const std::string& read) {
            const Array* returned = evidence_.array(read);
            return right_.contains(read) && names_.contains(read) && !graph_.are_of_one_call(name, read) &&
                   array != nullptr && returned != nullptr && same_numbers(*array, *returned);
        };
        const std::vector<std::string>& reads = graph_.reads(name);
        const auto found = std::ranges::find_if(reads, is_it);
        return found == reads.end() ? std::nullopt : std::optional(*found);
    }

    /// True where the line of a right array makes other steps rightly in other calls: whoever called it chose what for.
    bool is_of_helper(const std::string& name, const Diff& diff) const
    {
        std::set<std::string_view> made;
        for (const StepDiff& step : diff.steps)
            if (const std::string other(diff.world->mine->name_of(step.mine));
                step.passed() && line_of(other) == line_of(name) && !graph_.are_of_one_call(other, name))
                made.insert(std::string_view(step.step->path).substr(step.step->path.rfind('.') + 1));
        return right_.contains(name) && made.size() > 1;
    }

private:
    using Line = std::tuple<std::string, std::size_t, std::string>;

    Line line_of(const std::string& name) const
    {
        const auto origin = origins_.find(name);
        return origin == origins_.end() ? Line{name, 0, ""}
                                        : Line{origin->second.file, origin->second.line, origin->second.variable};
    }

    std::size_t place_of(const std::string& name) const { return place_.find(name)->second; }

    /// What was assigned by the line of the innermost call around an array's that makes nothing right elsewhere.
    std::optional<std::string> assigned_by_caller(const std::string& name) const
    {
        const auto of = origins_.find(name);
        for (auto call = of == origins_.end() ? std::nullopt : of->second.call; call && *call < calls_.size();) {
            const Origin& site = calls_[*call];
            const auto is_there = [&](const std::string& other) {
                const auto at = origins_.find(other);
                return at != origins_.end() && at->second.file == site.file && at->second.line == site.line;
            };
            const auto is_its = [&](const std::string& other) {
                return is_there(other) && origins_.find(other)->second.call == site.call;
            };
            if (std::ranges::none_of(right_,
                                     [&](const std::string& one) { return is_there(one) && names_.contains(one); })) {
                const auto found = std::ranges::find_if(graph_.order(), is_its);
                return found == graph_.order().end() ? std::nullopt : std::optional(*found);
            }
            call = site.call < call ? site.call : std::nullopt; // in a file of whatever origin
        }
        return std::nullopt;
    }

    const MyGraph& graph_;
    Evidence& evidence_;
    const Names &names_, &right_;
    const Origins& origins_;
    const std::vector<Origin>& calls_;
    std::map<std::string, std::size_t, std::less<>> place_;
    std::set<Line> lines_; ///< of what is right
};

std::optional<Origin> origin_of(const Origins& origins, std::string_view name)
{
    const auto found = origins.find(name);
    return found == origins.end() ? std::nullopt : std::optional(found->second);
}

} // namespace

void blame(Diff& diff)
{
    const Diff::World& world = *diff.world;
    const Origins& origins = world.mine->listing().origins;
    for (StepDiff& step : diff.steps)
        step.origin = origin_of(origins, world.mine->name_of(step.mine));
    const StepDiff* first = diff.first_wrong();
    if (first == nullptr || !first->origin || !world.mine->graph().knows_reads())
        return;
    const Ancestry ancestry(world);
    const std::string& proven = world.claims.fault;
    const Cause wrong = proven.empty() || ancestry.is_of_helper(proven, diff)
                            ? ancestry.cause_of(ancestry.first_wrong(std::string(world.mine->name_of(first->mine))))
                            : Cause{proven};
    std::optional<Origin> origin = origin_of(origins, wrong.name);
    if (!origin)
        return; // a listing need not have all arrays
    const Names open = ancestry.open_before(wrong.name);
    if (open.size() > 1 && !wrong.is_choice)
        diff.between = Between{origin_of(origins, ancestry.last_right(open)), *origin};
    else if (const auto returned = wrong.is_choice ? std::nullopt : ancestry.returned_as(wrong.name))
        diff.between = Between{origin_of(origins, *returned), *origin};
    diff.steps[static_cast<std::size_t>(first - diff.steps.data())].origin = std::move(origin);
}

} // namespace attn::diff
