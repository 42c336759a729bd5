// Which array of MINE is which step.

#include "names.hpp"

#include "attn/mistakes/head_scope.hpp"
#include "compare.hpp"
#include "matching.hpp"
#include "name_rules.hpp"
#include "name_vocabulary.hpp"
#include "targets.hpp"

#include "attn/core/error.hpp"
#include "attn/formula/expression.hpp"
#include "attn/formula/scope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace attn::diff {
namespace {

/// A step, and the path that it was found by: its own, or an alias's.
struct Named {
    std::size_t step = 0;
    std::string path;
};

/// The paths of a reference, for those who look for one.
class Paths {
public:
    explicit Paths(const Recording& reference) : names_(reference)
    {
        for (const Step& step : reference.steps)
            paths_.push_back(step.path);
        for (const Alias& alias : reference.aliases)
            paths_.push_back(alias.path);
        for (const std::string_view path : paths_) {
            has_layers_ = has_layers_ || ("." + std::string(path)).find(".layers.") != std::string::npos;
            has_gradients_ = has_gradients_ || path.starts_with(formula::gradient_scope);
        }
    }

    bool has_gradients() const { return has_gradients_; }

    std::optional<Named> exactly(const std::string& path) const
    {
        const std::optional<std::size_t> step = names_.find(path);
        return step ? std::optional(Named{*step, path}) : std::nullopt;
    }

    /// By the path, or, as PyTorch names a gradient, by that of the step: "self_attn.query.grad".
    std::optional<Named> of_tensor(const std::string& name) const
    {
        constexpr std::string_view end = ".grad";
        auto found = exactly(name);
        if (!found && name.ends_with(end))
            found = exactly(std::string(formula::gradient_scope) + name.substr(0, name.size() - end.size()));
        return found;
    }

    /// By the path, or by its only end: "layers.0.self_attn.query" is "encoder.layers.0.self_attn.query", or, where there
    /// is nothing but one layer or one attention, "self_attn.query" or "query".
    std::optional<Named> freely(std::string path) const
    {
        const std::string of_gradients(path.starts_with(formula::gradient_scope) ? formula::gradient_scope : "");
        path.erase(0, of_gradients.size());
        for (const std::string_view scope : {"", "layers.0.", "self_attn."}) {
            if (!path.starts_with(scope) || (scope == "layers.0." && has_layers_))
                break;
            path.erase(0, scope.size());
            if (auto found = exactly(of_gradients + path))
                return found;
            if (auto found = only_end(path, of_gradients))
                return found;
        }
        return std::nullopt;
    }

private:
    /// The only step that has a path with that end; of gradients, or of none.
    std::optional<Named> only_end(const std::string& path, const std::string& of_gradients) const
    {
        std::optional<Named> only;
        for (const std::string_view known : paths_)
            if (known.ends_with("." + path) && known.starts_with(formula::gradient_scope) == !of_gradients.empty()) {
                const std::size_t step = names_.find(known).value();
                if (only && only->step != step)
                    return std::nullopt;
                if (!only)
                    only = Named{step, std::string(known)};
            }
        return only;
    }

    formula::StepNames names_;
    std::vector<std::string_view> paths_;
    bool has_layers_ = false, has_gradients_ = false;
};

/// Makes claims of arrays by rules.
class Claimant {
public:
    Claimant(const std::vector<Step>& reference, const Paths& paths, Claims& claims)
        : reference_(reference), paths_(paths), claims_(claims)
    {
    }

    /// @return true where the rule is about the array, and there are such steps
    bool claim(const ReadRule& rule, const std::string& name, const Array& array)
    {
        if (auto holes = match(rule, split(name, '.'))) {
            if (claim_step(rule, name, array, *holes, ""))
                return true;
            if (!rule.is_of_table)
                refuse(rule, *holes);
        }
        // A table has the names of tensors: linear1.weight.grad is the gradient of linear1.weight.
        const auto gradient = rule.is_of_table && paths_.has_gradients() ? gradient_name(name) : std::nullopt;
        const auto holes =
            gradient ? match(rule, split(gradient->substr(formula::gradient_scope.size()), '.')) : std::nullopt;
        return holes && claim_step(rule, name, array, *holes, std::string(formula::gradient_scope));
    }

    std::vector<Claim> made;

private:
    /// @param scope  what stands before all of a path: that of gradients, or nothing
    bool claim_step(const ReadRule& rule, const std::string& name, const Array& array, const Holes& holes,
                    const std::string& scope)
    {
        // "encoder.layers.0.norm1" and "decoder.layers.0.norm1": the words in front tell which, where the trace has them.
        for (Words front = holes.front; !front.empty(); front.erase(front.begin()))
            if (claim_one_of(rule, name, array, holes, scope + joined(front, '.') + '.', false))
                return true;
        return claim_one_of(rule, name, array, holes, scope, rule.is_of_table);
    }

    /// @return true where one of the alternatives of a rule is there, with those words in front of its path
    bool claim_one_of(const ReadRule& rule, const std::string& name, const Array& array, const Holes& holes,
                      const std::string& front, bool is_free)
    {
        std::vector<std::vector<Named>> all;
        for (const std::string& alternative : rule.steps)
            if (auto heads = steps_of(front + filled(filled(alternative, "i", holes.i), "*", holes.rest), is_free);
                !heads.empty())
                all.push_back(std::move(heads));
        // An array can lack axes of size 1 that its step has, unless it is another step that has as many axes.
        std::ranges::stable_partition(all, [&](const std::vector<Named>& heads) {
            return reference_[heads.front().step].value.rank() <= array.rank();
        });
        return std::ranges::any_of(
            all, [&](const std::vector<Named>& heads) { return claim_heads(rule, name, array, heads); });
    }

    /// The step, or that of every head.
    std::vector<Named> steps_of(const std::string& step, bool is_free) const
    {
        std::vector<Named> found;
        const bool has_heads = step.find("{h}") != std::string::npos;
        for (std::size_t head = 0; head == 0 || has_heads; ++head) {
            const std::string path = filled(step, "h", std::to_string(head));
            auto one = is_free ? paths_.freely(path) : paths_.exactly(path);
            if (!one)
                break;
            found.push_back(std::move(*one));
        }
        return found;
    }

    /// A rule that was given names a step that is not there.
    [[noreturn]] void refuse(const ReadRule& rule, const Holes& holes) const
    {
        std::string step = filled(filled(filled(rule.steps.front(), "i", holes.i), "*", holes.rest), "h", "0");
        std::vector<std::string_view> paths;
        for (const Step& one : reference_)
            paths.push_back(one.path);
        throw Error(rule.theirs + " = " + rule.steps.front() + ": the reference has no step " + step +
                    suggestion(paths, step));
    }

    bool claim_heads(const ReadRule& rule, const std::string& name, const Array& given, const std::vector<Named>& heads)
    {
        const Shape& step = reference_[heads.front().step].value.shape;
        const std::size_t rank = step.size();
        Array array = given; // with the axes of size 1 that the step has
        for (std::size_t axis = 0; axis < rank && array.rank() < rank; ++axis)
            if (step[axis] == 1 && (axis == array.rank() || array.shape[axis] != 1))
                array.shape.insert(array.shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
        const auto axes = taken_of_axes(rule.taken, array.rank());
        if (!axes || array.rank() < rank + (rule.takes(Taken::Kind::heads) ? 1 : 0)) {
            if (rule.is_of_table) // another row of the table can be about an array of fewer axes
                return false;
            complain(rule, name, heads.front(), fmt::format("has the shape {}, too few axes", to_string(given.shape)));
            return true;
        }
        const std::size_t shared_by = query_heads_per(array.shape, *axes, heads);
        const std::string complaint = complaint_about(array.shape, *axes, heads.size() / shared_by);
        if (!complaint.empty()) {
            complain(rule, name, heads.front(), complaint);
            return true;
        }
        for (std::size_t head = 0; head < heads.size(); ++head) {
            const std::size_t theirs = head / shared_by;
            const std::string part = filled(rule.suffix, "h", std::to_string(theirs));
            claims_.parts.push_back(
                std::make_shared<const Array>(taken_from(array, *axes, rule.is_transposed, theirs, rank)));
            made.push_back({heads[head].step, name + part, claims_.parts.back().get(), "", heads[head].path});
        }
        return true;
    }

    /// How many heads of the reference each head of an array is: several where they share keys and values, so that their
    /// steps have the same numbers.
    std::size_t query_heads_per(const Shape& shape, const std::vector<Taken>& axes,
                                const std::vector<Named>& heads) const
    {
        const auto axis = std::ranges::find(axes, Taken::Kind::heads, &Taken::kind);
        const std::size_t theirs = axis == axes.end() ? 0 : shape[static_cast<std::size_t>(axis - axes.begin())];
        if (theirs == 0 || heads.size() % theirs != 0)
            return 1;
        const std::size_t shared_by = heads.size() / theirs;
        for (std::size_t head = 0; head < heads.size(); ++head)
            if (!same_numbers(reference_[heads[head].step].value,
                              reference_[heads[head / shared_by * shared_by].step].value))
                return 1;
        return shared_by;
    }

    /// Why heads or parts can't be taken out of an array of that shape; empty where they can.
    static std::string complaint_about(const Shape& shape, const std::vector<Taken>& axes, std::size_t heads)
    {
        for (std::size_t axis = 0; axis < axes.size(); ++axis) {
            if (axes[axis].kind == Taken::Kind::heads && shape[axis] != heads)
                return fmt::format("has {} heads along axis {} of {}, expected {}", shape[axis], axis, to_string(shape),
                                   heads);
            if (axes[axis].kind == Taken::Kind::part && shape[axis] % axes[axis].of != 0)
                return fmt::format("has the shape {}: axis {} can't be split into {} equal parts", to_string(shape),
                                   axis, axes[axis].of);
        }
        return "";
    }

    void complain(const ReadRule& rule, const std::string& name, const Named& step, const std::string& what)
    {
        made.push_back({step.step, name + rule.suffix, nullptr, name + ' ' + what, step.path});
    }

    const std::vector<Step>& reference_;
    const Paths& paths_;
    Claims& claims_;
};

/// An alias as a step of its own: a copy of the step that it means.
Step copy_under(const std::string& alias, const Step& step)
{
    Step copy = step;
    copy.path = alias;
    copy.formula = step.path;
    // As the scope around names it: "norm1.output" for layers.0.feed_forward.x, in place of layers.0.norm1.output.
    const std::string scope = alias.substr(0, alias.rfind('.') + 1);
    const std::size_t around = scope.empty() ? 0 : scope.rfind('.', scope.size() - 2) + 1;
    if (step.path.starts_with(scope.substr(0, around)))
        copy.formula.erase(0, around);
    return copy;
}

/// The reference with aliases as steps of their own, each after the step that it means.
/// @param own  paths of aliases, and the numbers of the steps that they mean
Recording widened(const Recording& reference, const std::map<std::string, std::size_t>& own)
{
    Recording wide;
    for (std::size_t i = 0; i < reference.steps.size(); ++i) {
        wide.steps.push_back(reference.steps[i]);
        for (const auto& [alias, step] : own)
            if (step == i)
                wide.steps.push_back(copy_under(alias, reference.steps[i]));
    }
    for (const Alias& alias : reference.aliases)
        if (!own.contains(alias.path))
            wide.aliases.push_back(alias);
    return wide;
}

/// Settles what several claims are about: an array that repeats another one of its step under an alias's path is left out, and an
/// alias that has another one becomes a step.
void settle(const Recording& reference, std::vector<Claim> made, Claims& claims)
{
    const auto path_of = [&](const Claim& claim) -> const std::string& { return reference.steps[claim.step].path; };
    // The step's own path first, and of several arrays the one that MINE goes on with.
    std::ranges::stable_sort(made, {}, [&](const Claim& claim) {
        return std::tuple(claim.step, claim.path != path_of(claim), !claim.replaces);
    });
    std::map<std::string, std::size_t> own;
    std::vector<const Claim*> kept;
    const Claim* first = nullptr; // about the same step
    for (const Claim& one : made) {
        if (first == nullptr || first->step != one.step)
            first = &one;
        if (one.path != first->path) {
            const Array *mine = one.array, *other = first->array;
            if (mine != nullptr && other != nullptr && same_numbers(*mine, *other))
                continue;
            own.emplace(one.path, one.step);
        }
        kept.push_back(&one);
    }
    if (!own.empty())
        claims.widened = std::make_shared<const Recording>(widened(reference, own));
    const formula::StepNames names(claims.widened ? *claims.widened : reference);
    for (const Claim* one : kept) {
        claims.claims.push_back(*one);
        claims.claims.back().step = names.find(own.contains(one->path) ? one->path : path_of(*one)).value();
    }
    std::ranges::stable_sort(claims.claims, {}, &Claim::step);
}

/// The names of arrays in the order in which MINE computed them, where that is known.
std::vector<std::string> ordered(const std::vector<std::string>& names, const std::vector<std::string>& order)
{
    const std::set<std::string_view> wanted(names.begin(), names.end());
    std::vector<std::string> result;
    for (const std::string& name : order)
        if (wanted.contains(name))
            result.push_back(name);
    return result.empty() ? names : result;
}

/// The array in the shape of a step, where it differs in axes of one entry only, or is a mask that means the same for every
/// sequence; the array itself where it doesn't.
const Array* in_shape_of(const Array& array, const Array& step, Claims& claims)
{
    const auto without_ones = [](Shape shape) {
        std::erase(shape, 1);
        return shape;
    };
    if (array.shape == step.shape)
        return &array;
    const Shape inner = without_ones(array.shape), wanted = without_ones(step.shape);
    const bool is_repeated = step.type == ElementType::boolean && inner.size() < wanted.size() &&
                             std::equal(inner.rbegin(), inner.rend(), wanted.rbegin());
    if (inner != wanted && !is_repeated)
        return &array;
    Array fitted{step.shape, array.values, array.type};
    while (fitted.values.size() < step.values.size())
        fitted.values.insert(fitted.values.end(), array.values.begin(), array.values.end());
    claims.parts.push_back(std::make_shared<const Array>(std::move(fitted)));
    return claims.parts.back().get();
}

/// True where an array has the numbers of a later step of the same scope: what is called scores is masked already.
bool is_a_later_step(const Array& mine, std::size_t step, const std::vector<Step>& steps)
{
    const auto scope_of = [](std::string_view path) { return path.substr(0, path.rfind('.') + 1); };
    const auto has_its_numbers = [&](const Step& later) {
        return scope_of(later.path) == scope_of(steps[step].path) && later.value.type == ElementType::real &&
               later.value.shape == mine.shape && relative_distance(mine, later.value) <= right_enough(mine);
    };
    return std::any_of(steps.begin() + static_cast<std::ptrdiff_t>(step) + 1, steps.end(), has_its_numbers);
}

/// Takes arrays for the steps whose names they have. A program can use a step's name for another thing: where the numbers are
/// not the step's, and it has names of its own or the numbers of a later step, they are looked at first.
void keep_names(std::vector<Claim> named, const Recording& reference, const DiffOptions& options,
                std::vector<Claim>& made, Claims& claims)
{
    const bool has_own_names = !claims.extra.empty();
    for (Claim& one : named) {
        const Array &mine = *one.array, &step = reference.steps[one.step].value;
        const bool is_it = step.type == ElementType::real
                               ? mine.shape == step.shape && relative_distance(mine, step) <= near_enough(mine)
                               : mine.shape == step.shape;
        const bool is_other = options.by_numbers && !is_it && !is_gradient(reference.steps[one.step].path) &&
                              (has_own_names || is_a_later_step(mine, one.step, reference.steps));
        if (is_other)
            claims.extra.push_back(one.mine);
        else
            made.push_back(std::move(one));
    }
}

/// Looks for the steps of arrays that no name claims.
void match_the_rest(const Recording& reference, const ArrayViews& mine, const MyGraph& graph,
                    const Hypothesis& hypothesis, std::vector<Claim>& made, Claims& claims)
{
    const std::vector<std::string> names = ordered(claims.extra, graph.order());
    Matches matches = match_by_numbers(reference, mine, made, names, graph, hypothesis);
    static_cast<Explanation&>(claims) = std::move(matches);
    for (Match& match : matches.matches) {
        std::erase(claims.extra, match.found.mine);
        const std::string found = match.found.how == found_by_numbers ? match.found.mine : "";
        for (Match::Part& part : match.parts) {
            claims.parts.push_back(std::make_shared<const Array>(std::move(part.array)));
            made.push_back({part.step, match.found.mine + part.suffix, claims.parts.back().get(), "",
                            reference.steps[part.step].path, match.replaces, found});
        }
        if (match.found.mine != match.found.step)
            claims.found.push_back(std::move(match.found));
    }
}

} // namespace

Claims claims_of(const Recording& reference, const ArrayViews& mine, const MyGraph& graph, const DiffOptions& options,
                 const Hypothesis& hypothesis)
{
    std::vector<ReadRule> rules;
    for (const NameRule& rule : options.names)
        rules.push_back(read_rule(rule, nullptr));
    if (options.table != nullptr)
        for (const NameRule& rule : options.table->rules)
            rules.push_back(read_rule(rule, options.table));

    Claims claims;
    const Paths paths(reference);
    Claimant claimant(reference.steps, paths, claims);
    std::vector<Claim> named; // by a step's own name
    const std::optional<std::size_t> last_token = formula::StepNames(reference).find(last_token_path);
    for (const auto& [name, array] : mine) {
        // One rule is enough, unless it takes a part: then others take the rest.
        const ReadRule* taken = nullptr;
        for (const ReadRule& rule : rules)
            if (taken == nullptr || (taken->takes(Taken::Kind::part) && rule.name == taken->name))
                if (claimant.claim(rule, name, *array))
                    taken = &rule;
        if (taken != nullptr)
            continue;
        const auto found = paths.of_tensor(name);
        if (found && last_token && array->size() == reference.steps[*last_token].value.size() &&
            reference.steps[*last_token].formula.starts_with(reference.steps[found->step].path + '['))
            named.push_back({*last_token, name, in_shape_of(*array, reference.steps[*last_token].value, claims), "",
                             std::string(last_token_path)});
        else if (found)
            named.push_back(
                {found->step, name, in_shape_of(*array, reference.steps[found->step].value, claims), "", found->path});
        else
            claims.extra.push_back(name);
    }
    keep_names(std::move(named), reference, options, claimant.made, claims);
    if (!claims.extra.empty() && options.by_numbers)
        match_the_rest(reference, mine, graph, hypothesis, claimant.made, claims);
    settle(reference, std::move(claimant.made), claims);
    return claims;
}

std::size_t heads_around(std::string_view path, const std::vector<Step>& reference)
{
    const auto head = mistakes::head_scope(path);
    const std::string_view scope = head ? head->before : path.substr(0, path.rfind('.') + 1);
    std::size_t heads = 0;
    for (const Step& step : reference)
        if (const auto other = mistakes::head_scope(step.path); other && other->before == scope)
            if (const std::size_t number = std::stoul(std::string(other->number)); number < reference.size())
                heads = std::max(heads, number + 1); // there can't be more heads than steps
    return heads;
}

} // namespace attn::diff
