// A trace walked backwards: each function of the language says what arrives at its operands.

#include "attn/formula/gradient.hpp"

#include "function.hpp"
#include "attn/formula/scope.hpp"
#include "slices.hpp"
#include "terms.hpp"
#include "written.hpp"

#include "attn/core/error.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/scope.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace attn::formula {
namespace {

using Kind = Expression::Kind;

std::string gradient_path(const std::string& path) { return std::string(gradient_scope).append(path); }

/// A name in a formula that is being made, until it is known in which step's formula it stands.
struct Mention {
    std::size_t step;
    bool is_gradient;
    std::string hint; ///< how the step's user calls it: "x" of an alias
};

class BackwardPass {
public:
    BackwardPass(const Recording& forward, std::size_t of, Array seed, bool of_inputs)
        : names_(forward), result_(forward), forward_(forward), contributions_(forward.steps.size())
    {
        for (std::size_t i = 0; i < forward.steps.size(); ++i)
            by_path_.emplace(forward.steps[i].path, i);
        for (const Alias& alias : forward.aliases)
            if (const auto step = names_.find(alias.path))
                by_path_.emplace(alias.path, *step);
        find_wanted(of, of_inputs);
        emit(gradient_path(forward.steps[of].path), of, "", std::move(seed));
        name_aliases(of);
        send_back(of);
        for (std::size_t step = of; step-- > 0;)
            if (!contributions_[step].empty()) {
                receive(step);
                name_aliases(step);
                send_back(step);
            }
    }

    Recording result() { return std::move(result_); }

private:
    /// The steps that `of` follows from, whose numbers are real.
    void find_wanted(std::size_t of, bool of_inputs)
    {
        wanted_.assign(forward_.steps.size(), false);
        wanted_[of] = true;
        for (std::size_t step = of + 1; step-- > 0;) {
            if (!wanted_[step] || forward_.steps[step].formula.empty())
                continue;
            for (const UsedName& used : names_in(forward_.steps[step].formula))
                if (const auto operand = names_.resolve(step, used.name); operand && !used.is_size_alone)
                    wanted_[*operand] = wanted_[*operand] ||
                                        (is_real(*operand) && (of_inputs || !forward_.steps[*operand].formula.empty()));
        }
    }

    bool is_real(std::size_t step) const { return forward_.steps[step].value.type == ElementType::real; }

    // -------------------------------------------------------------------------------- from a step to its operands

    void send_back(std::size_t step)
    {
        const Step& here = forward_.steps[step];
        if (here.formula.empty())
            return;
        const Lookup lookup = [&](std::string_view name) { return value_in(step, name); };
        const ShapedFormula formula(here.formula, lookup);
        const Shaper shaper(formula.text(), lookup);
        std::map<std::size_t, Expression> arriving; // by operand: all occurrences in this formula
        descend(step, formula.root(), shaper, mention({step, true, ""}), mention({step, false, ""}), arriving);
        for (auto& [operand, grad] : arriving)
            contributions_[operand].push_back({step, std::move(grad)});
    }

    /// @param grad    the gradient of that part of the step's formula
    /// @param result  what that part gives
    void descend(std::size_t step, const Shaped& part, const Shaper& shaper, const Expression& grad,
                 const Expression& result, std::map<std::size_t, Expression>& arriving)
    {
        if (part.expression->kind == Kind::name) {
            const std::size_t operand = names_.resolve(step, part.expression->text).value();
            const auto [found, is_first] = arriving.emplace(operand, grad);
            if (!is_first) {
                using namespace terms;
                found->second = std::move(found->second) + grad;
            }
            return;
        }
        std::vector<Expression> operands;
        for (const Shaped& operand : part.operands)
            operands.push_back(with_mentions(step, *operand.expression));
        for (std::size_t i = 0; i < part.operands.size(); ++i)
            if (is_wanted(step, part.operands[i]) && part.function->gradient != nullptr &&
                !(part.function->has_ids && i == 1)) {
                const Backward at{part, grad, result, operands, shaper};
                descend(step, part.operands[i], shaper, part.function->gradient(at, i), operands[i], arriving);
            }
    }

    /// True where a part of a formula has the numbers of a step whose gradient is wanted.
    bool is_wanted(std::size_t step, const Shaped& part) const
    {
        if (part.expression->kind == Kind::name) {
            const auto operand = names_.resolve(step, part.expression->text);
            return operand && wanted_[*operand];
        }
        return std::ranges::any_of(part.operands, [&](const Shaped& operand) { return is_wanted(step, operand); });
    }

    // -------------------------------------------------------------------------------- what arrives at a step

    void receive(std::size_t step)
    {
        const std::string path = gradient_path(forward_.steps[step].path);
        std::vector<Contribution>& from = contributions_[step];
        if (from.size() == 1)
            return emit(path, step, std::move(from.front().formula));
        if (std::vector<Slice> slices = side_by_side(from, forward_.steps[step].value.shape); !slices.empty())
            return emit_joined(path, step, std::move(slices));
        std::vector<std::string> parts;
        for (Contribution& one : from) {
            parts.push_back(path_from(path, one.user, step));
            emit(parts.back(), step, std::move(one.formula));
        }
        emit_sum(path, step, parts);
    }

    /// The path of what one user contributes to the gradient of a step.
    std::string path_from(const std::string& path, std::size_t of_user, std::size_t step) const
    {
        std::string user = inside_common_scope(forward_.steps[of_user].path, step);
        while (by_path_.contains(path + ".from." + user)) // y, and inner.y of a step in the scope inner
            user.insert(0, "outer.");
        return path + ".from." + user;
    }

    /// A user's path without the scopes that it shares with the step.
    std::string inside_common_scope(std::string_view user, std::size_t step) const
    {
        const std::string_view path = forward_.steps[step].path;
        std::size_t common = 0;
        for (std::size_t i = 0; i < std::min(path.size(), user.size()) && path[i] == user[i]; ++i)
            if (path[i] == '.')
                common = i + 1;
        return std::string(user.substr(common));
    }

    /// Where each user has taken a slice of a step, the gradients of the slices side by side.
    void emit_joined(const std::string& path, std::size_t step, std::vector<Slice> slices)
    {
        Expression joined = terms::along("concat", {}, slices.front().axis, forward_.steps[step].value.rank());
        joined.operands.clear();
        for (Slice& slice : slices)
            joined.operands.push_back(named_part(path, step, std::move(slice)));
        emit(path, step, to_text(joined));
    }

    /// The name of a slice's gradient in the formula of the whole; one that is no step yet becomes one.
    Expression named_part(const std::string& whole, std::size_t step, Slice slice)
    {
        if (slice.part.kind == Kind::name) {
            name_mentions(slice.part, whole);
            return std::move(slice.part);
        }
        const std::string path = path_from(whole, slice.user, step);
        name_mentions(slice.part, path);
        const std::string formula = to_text(slice.part);
        append(path, step, formula, computed(path, formula));
        Expression name;
        name.kind = Kind::name;
        name.text = name_in_scope(path, step);
        return name;
    }

    /// A formula has so many terms at most; beyond that, sums of sums.
    void emit_sum(const std::string& path, std::size_t step, std::vector<std::string> parts)
    {
        constexpr std::size_t most = 32;
        for (std::size_t level = 0; parts.size() > most; ++level) {
            std::vector<std::string> sums;
            for (std::size_t begin = 0; begin < parts.size(); begin += most) {
                const std::size_t end = std::min(begin + most, parts.size());
                sums.push_back(path + ".sum" + std::to_string(level) + '.' + std::to_string(sums.size()));
                emit(sums.back(), step, sum_of(step, std::span(parts).subspan(begin, end - begin)));
            }
            parts = std::move(sums);
        }
        emit(path, step, sum_of(step, parts));
    }

    /// The parts of a step's gradient, by their names in its scope.
    std::string sum_of(std::size_t step, std::span<const std::string> parts) const
    {
        std::string text;
        for (const std::string& part : parts)
            text += (text.empty() ? "" : " + ") + name_in_scope(part, step);
        return text;
    }

    /// The name of a part of a step's gradient in the step's scope.
    std::string name_in_scope(const std::string& part, std::size_t step) const
    {
        const std::size_t scope = forward_.steps[step].path.rfind('.') + 1;
        return gradient_path(part.substr(gradient_scope.size() + scope));
    }

    void emit(const std::string& path, std::size_t step, Expression formula)
    {
        name_mentions(formula, path);
        emit(path, step, to_text(formula));
    }

    void emit(const std::string& path, std::size_t step, const std::string& formula)
    {
        emit(path, step, formula, computed(path, formula));
    }

    void emit(const std::string& path, std::size_t step, std::string formula, Array value)
    {
        const Step& of = forward_.steps[step];
        if (value.shape != of.value.shape)
            throw Error(path, " has the shape ", value.shape, ", and ", of.path, ' ', of.value.shape);
        append(path, step, std::move(formula), std::move(value));
    }

    Array computed(const std::string& path, const std::string& formula) const
    {
        try {
            return evaluate(formula, [&](std::string_view name) { return value_of(path, name); },
                            {.sums = SumErrors::none})
                .value;
        } catch (const Error& error) {
            throw Error(path, " can't be computed: ", error.what());
        }
    }

    void append(const std::string& path, std::size_t step, std::string formula, Array value)
    {
        value.type = ElementType::real;
        by_path_.emplace(path, result_.steps.size());
        result_.steps.push_back({path, std::move(formula), forward_.steps[step].axes, "", {}, std::move(value)});
    }

    /// Whatever else the step is called, its gradient is called, too.
    void name_aliases(std::size_t step)
    {
        const std::string& target = forward_.steps[step].path;
        for (const Alias& alias : forward_.aliases)
            if (alias.target == target) {
                result_.aliases.push_back({gradient_path(alias.path), gradient_path(target)});
                by_path_.emplace(gradient_path(alias.path), by_path_.at(gradient_path(target)));
            }
    }

    // -------------------------------------------------------------------------------- names

    Expression mention(Mention mention)
    {
        mentions_.push_back(std::move(mention));
        Expression name;
        name.kind = Kind::name;
        name.text = std::to_string(mentions_.size() - 1);
        return name;
    }

    /// A part of a step's formula, with mentions for names.
    Expression with_mentions(std::size_t step, Expression expression)
    {
        for_each_name(expression, [&](Expression& name) {
            name = mention({names_.resolve(step, name.text).value(), false, name.text});
        });
        return expression;
    }

    void name_mentions(Expression& expression, const std::string& path)
    {
        for_each_name(expression,
                      [&](Expression& name) { name.text = shortest_name(mentions_[std::stoul(name.text)], path); });
    }

    template <class Change>
    static void for_each_name(Expression& expression, const Change& change)
    {
        if (expression.kind == Kind::name)
            return change(expression);
        for (Expression& operand : expression.operands)
            for_each_name(operand, change);
        for (Keyword& keyword : expression.keywords)
            for_each_name(keyword.value, change);
        for (Subscript& subscript : expression.subscripts)
            for (auto* part : {&subscript.index, &subscript.start, &subscript.stop, &subscript.step})
                if (*part)
                    for_each_name(**part, change);
    }

    /// The shortest name that means a step in the formula of another one.
    std::string shortest_name(const Mention& mention, const std::string& path)
    {
        const std::string before = mention.is_gradient ? std::string(gradient_scope) : "";
        const std::string& whole = forward_.steps[mention.step].path;
        const std::size_t wanted = by_path_.at(before + whole);
        const auto means_it = [&](const std::string& name) { return find(path, name) == wanted; };
        if (!mention.hint.empty() && means_it(before + mention.hint))
            return before + mention.hint;
        for (std::size_t begin = whole.rfind('.'); begin != std::string::npos;
             begin = begin == 0 ? std::string::npos : whole.rfind('.', begin - 1))
            if (const std::string name = before + whole.substr(begin + 1);
                begins_name(whole[begin + 1]) && means_it(name))
                return name;
        return means_it(before + whole) ? before + whole : name_from_outside(before, whole, path);
    }

    /// Another name for a step whose path means a step of a scope further in: `gain` is hidden by `inner.gain` in the
    /// formula of `grad.inner.x`, where it can be called `outer.gain`.
    std::string name_from_outside(const std::string& before, const std::string& whole, const std::string& path)
    {
        const std::size_t wanted = by_path_.at(before + whole);
        std::string name = before + "outer." + whole;
        while (find(path, name).value_or(wanted) != wanted)
            name.insert(before.size(), "outer.");
        if (by_path_.emplace(name, wanted).second)
            result_.aliases.push_back({name, result_.steps[wanted].path});
        return name;
    }

    /// The step so far that a name in the formula of a gradient means.
    std::optional<std::size_t> find(const std::string& path, std::string_view name) const
    {
        return resolve(path, name, [&](const std::string& whole) -> std::optional<std::size_t> {
            const auto found = by_path_.find(whole);
            return found == by_path_.end() ? std::nullopt : std::optional(found->second);
        });
    }

    const Array* value_of(const std::string& path, std::string_view name) const
    {
        const auto found = find(path, name);
        return found ? &result_.steps[*found].value : nullptr;
    }

    const Array* value_in(std::size_t step, std::string_view name) const
    {
        const auto found = names_.resolve(step, name);
        return found ? &forward_.steps[*found].value : nullptr;
    }

    const StepNames names_;
    Recording result_;
    const Recording& forward_;
    std::map<std::string, std::size_t, std::less<>> by_path_; ///< in result_
    std::vector<bool> wanted_;
    std::vector<std::vector<Contribution>> contributions_; ///< by step; names are numbers of mentions
    std::vector<Mention> mentions_;
};

/// The gradient of the step with respect to itself.
Array seed_of(const Step& of, const GradientOptions& options)
{
    if (options.seed) {
        if (options.seed->shape != of.value.shape)
            throw Error("the gradient to begin with has the shape ", options.seed->shape, ", expected ", of.value.shape,
                        " as ", of.path);
        return *options.seed;
    }
    return {of.value.shape, std::vector<double>(of.value.size(), 1.0)};
}

} // namespace

std::size_t step_of_gradients(const Recording& recording, const std::string& of)
{
    if (recording.steps.empty())
        throw Error("there are no steps");
    return of.empty() ? StepNames(recording).find("output").value_or(recording.steps.size() - 1)
                      : find_step(recording, of);
}

Recording without_gradients(const Recording& recording)
{
    const StepNames names(recording);
    std::vector<bool> is_left_out(recording.steps.size());
    std::set<std::string_view> left;
    Recording forward;
    for (std::size_t i = 0; i < recording.steps.size(); ++i) {
        const Step& step = recording.steps[i];
        const auto uses_gradient = [&](const UsedName& used) {
            const auto operand = names.resolve(i, used.name);
            return operand && is_left_out[*operand];
        };
        is_left_out[i] = step.path.starts_with(gradient_scope) ||
                         (!step.formula.empty() && std::ranges::any_of(names_in(step.formula), uses_gradient));
        if (is_left_out[i])
            continue;
        forward.steps.push_back(step);
        left.insert(step.path);
    }
    std::ranges::copy_if(recording.aliases, std::back_inserter(forward.aliases), [&](const Alias& alias) {
        return !alias.path.starts_with(gradient_scope) && left.contains(alias.target);
    });
    return forward;
}

Recording gradients(const Recording& recording, const GradientOptions& options)
{
    for (const Step& step : recording.steps)
        if (step.path.starts_with(gradient_scope))
            throw Error("there are gradients already: ", step.path);
    const std::size_t of = step_of_gradients(recording, options.of);
    const Step& step = recording.steps[of];
    if (step.value.type != ElementType::real)
        throw Error(step.path, " has whole numbers or booleans, which have no gradient");
    return BackwardPass(recording, of, seed_of(step, options), options.inputs).result();
}

} // namespace attn::formula
