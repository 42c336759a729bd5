#include "attn/core/trace.hpp"

#include "attn/core/memory.hpp"

#include <algorithm>
#include <stdexcept>

namespace attn {

Trace Trace::scope(std::string_view name, Aliases aliases) const&
{
    if (listener_ != nullptr && !is_step_name(name))
        throw std::logic_error("trace: \"" + std::string(name) + "\" is no name for a scope");
    Trace child = *this;
    child.parent_ = this;
    child.name_ = name;
    child.index_.reset();
    child.name_aliases(aliases, *this);
    return child;
}

Trace Trace::scope(std::string_view name, std::size_t index, Aliases aliases) const&
{
    Trace child = scope(name);
    child.index_ = index;
    child.name_aliases(aliases, *this);
    return child;
}

void Trace::name_aliases(Aliases aliases, const Trace& around) const
{
    if (listener_ == nullptr)
        return;
    for (const auto& [name, target] : aliases) {
        const std::optional<std::string_view> step = around.meaning_of(target);
        if (!is_step_name(name) || !step)
            throw std::logic_error("trace: " + path() + std::string(name) + " can't mean " + std::string(target) +
                                   (step ? ": it is no name" : ": there is no such step"));
        listener_->record(Alias{path() + std::string(name), std::string(*step)});
    }
}

void Trace::alias(std::string_view name, std::string_view target) const { name_aliases({{name, target}}, *this); }

Trace Trace::module(std::string_view name, const std::function<StepOptions()>& options) const
{
    if (listener_ == nullptr)
        return {};
    Trace same = *this;
    same.module_ = std::make_shared<const Module>(Module{std::string(name), options ? options() : StepOptions{}});
    return same;
}

Trace Trace::observing() const
{
    Trace same = *this;
    same.is_observing_ = true;
    return same;
}

std::string Trace::path() const
{
    std::string path = parent_ == nullptr ? "" : parent_->path();
    if (name_.empty())
        return path;
    path += std::string(name_) + '.';
    return index_ ? path + std::to_string(*index_) + '.' : path;
}

Step Trace::describe(std::string_view step, std::string formula, Array value) const
{
    StepLabel label = parse_step_label(step);
    if (label.may_be_batch && value.rank() == label.axes.size() + 1)
        label.axes.insert(label.axes.begin(), "b");
    else if (label.may_be_batch && value.rank() == label.axes.size() + 2)
        label.axes.insert(label.axes.begin(), {"b", "h"});
    if (!label.axes.empty() && label.axes.size() != value.rank())
        throw std::logic_error("trace: " + std::string(step) + " has the shape " + to_string(value.shape));
    return {path() + label.name,
            std::move(formula),
            std::move(label.axes),
            module_ ? module_->name : "",
            module_ ? module_->options : StepOptions{},
            std::move(value)};
}

/// The path of a name as the innermost scope has it: a step's own, or an alias's.
std::optional<std::string> Trace::full_name(std::string_view name) const
{
    std::string scope = path(); // empty, or ends with a dot
    while (true) {
        if (std::string whole = scope + std::string(name); listener_->find(whole))
            return whole;
        if (scope.empty())
            return std::nullopt;
        scope.pop_back();
        scope.resize(scope.rfind('.') + 1); // without a dot the root is left
    }
}

/// The path of the step that a name means in this scope.
std::optional<std::string_view> Trace::meaning_of(std::string_view name) const
{
    const auto whole = full_name(name);
    return whole ? listener_->find(*whole) : std::nullopt;
}

std::optional<std::string> Trace::name_in_scope(std::string_view step) const
{
    return full_name(parse_step_label(step).name);
}

/// The name by which a formula in this scope finds a step.
std::string Trace::relative(std::string_view target) const
{
    const auto step = listener_->find(target);
    if (!step)
        throw std::logic_error("trace: " + path() + " has no step " + std::string(target));
    // The shortest first: without the scopes around both. A number belongs to the scope before it.
    const std::string scope = path();
    std::size_t common = 0;
    while (common < std::min(scope.size(), target.size()) && scope[common] == target[common])
        ++common;
    for (++common; common-- > 0;) {
        const bool begins = common == 0 || (target[common - 1] == '.' && begins_name(target[common]));
        if (begins && meaning_of(target.substr(common)) == step)
            return std::string(target.substr(common));
    }
    throw std::logic_error("trace: no formula in " + scope + " can name " + std::string(target));
}

std::string Trace::say(const Wording& wording) const
{
    if (listener_ == nullptr) // of this trace: the term can have one of another
        return {};
    return wording.with_names([this](std::string_view path) { return relative(path); });
}

std::string Trace::said(std::string_view step, const Wording& wording) const
{
    if (wording.listener != listener_)
        throw std::logic_error("trace: " + path() + std::string(step) +
                               " was computed of numbers that are no step of this trace");
    return say(wording);
}

Wording Trace::aliased(std::string_view name, const Wording& target) const
{
    const std::string whole = path() + std::string(name);
    if (target.listener != listener_ || target.path().empty())
        throw std::logic_error("trace: " + whole + " can't be another name of what is no step");
    listener_->record(Alias{whole, std::string(*listener_->find(target.path()))});
    return Wording::of_step(*listener_, whole);
}

template <Traceable T>
Term<T> Trace::recorded(std::string_view step, std::string formula, Term<T> term) const
{
    Wording wording = Wording::of_step(*listener_, path() + parse_step_label(step).name);
    return {recorded(step, std::move(formula), std::move(term).take()), std::move(wording)};
}

template <Traceable T>
Term<T> Trace::recorded_input(std::string_view step, Term<T> term) const
{
    const std::string name = parse_step_label(step).name, whole = path() + name;
    if (listener_->find(whole))
        return {term, Wording::of_step(*listener_, whole)};
    if (term.wording().listener == listener_ && !term.wording().path().empty())
        return {term, aliased(name, term.wording())};
    if (term.wording().listener == listener_) {
        std::string formula = say(term.wording());
        return recorded(step, std::move(formula), std::move(term));
    }
    const T& value = recorded_input(step, *term); // the term's own, or what the listener keeps
    return {&value == &*term ? std::move(term) : Term<T>(value), Wording::of_step(*listener_, whole)};
}

namespace {

constexpr std::size_t copies = 3; // of a value, until the listeners have recorded it

template <Traceable T>
std::optional<T> replaced(const std::optional<Array>& replacement, const T& value, std::string_view step)
{
    if (!replacement)
        return std::nullopt;
    if (replacement->shape != shape_of(value))
        throw std::logic_error("trace: " + std::string(step) + " has the shape " + to_string(shape_of(value)) +
                               " and was replaced by one of " + to_string(replacement->shape));
    return from_array<T>(*replacement);
}

} // namespace

template <Traceable T>
T Trace::recorded(std::string_view step, std::string formula, T value) const
{
    expect_memory("the record of " + std::string(step), shape_of(value), copies * sizeof(double));
    const auto replacement = listener_->record(describe(step, std::move(formula), to_array(value)));
    if (replacement && is_observing_)
        throw std::logic_error("trace: " + path() + parse_step_label(step).name + " was replaced, but " +
                               (module_ ? module_->name : "its function") +
                               " only shows its steps: replace those of the reference");
    return replaced(replacement, value, step).value_or(std::move(value));
}

template <Traceable T>
const T& Trace::recorded_input(std::string_view step, const T& value) const
{
    if (listener_->find(path() + parse_step_label(step).name))
        return value;
    if (is_observing_) { // where a replacement is an error
        (void)recorded(step, "", value);
        return value;
    }
    expect_memory("the record of " + std::string(step), shape_of(value), copies * sizeof(double));
    std::optional<T> other = replaced(listener_->record(describe(step, "", to_array(value))), value, step);
    return other && *other != value ? listener_->keep(*std::move(other)) : value;
}

#define ATTN_INSTANTIATE(T)                                                                                            \
    template T Trace::recorded(std::string_view, std::string, T) const;                                                \
    template const T& Trace::recorded_input(std::string_view, const T&) const;                                         \
    template Term<T> Trace::recorded(std::string_view, std::string, Term<T>) const;                                    \
    template Term<T> Trace::recorded_input(std::string_view, Term<T>) const;
ATTN_INSTANTIATE(double)
ATTN_INSTANTIATE(std::int64_t)
ATTN_INSTANTIATE(Vector)
ATTN_INSTANTIATE(Matrix)
ATTN_INSTANTIATE(Tensor3)
ATTN_INSTANTIATE(Tensor4)
ATTN_INSTANTIATE(Integers)
ATTN_INSTANTIATE(IntegerMatrix)
ATTN_INSTANTIATE(Mask)
ATTN_INSTANTIATE(BatchMask)
ATTN_INSTANTIATE(HeadMask)
#undef ATTN_INSTANTIATE

} // namespace attn
