#include "attn/core/trace.hpp"

#include "attn/core/memory.hpp"

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

/// The path of the step that a name means in this scope: that of the innermost scope that has one.
std::optional<std::string_view> Trace::meaning_of(std::string_view name) const
{
    std::string scope = path(); // empty, or ends with a dot
    while (true) {
        if (const auto found = listener_->find(scope + std::string(name)))
            return found;
        if (scope.empty())
            return std::nullopt;
        scope.pop_back();
        scope.resize(scope.rfind('.') + 1); // without a dot the root is left
    }
}

bool Trace::is_in_scope(std::string_view step) const { return meaning_of(parse_step_label(step).name).has_value(); }

template <Traceable T>
T Trace::recorded(std::string_view step, std::string formula, T value) const
{
    constexpr std::size_t copies = 3; // until the listeners have recorded it
    expect_memory("the record of " + std::string(step), shape_of(value), copies * sizeof(double));
    const std::optional<Array> replacement = listener_->record(describe(step, std::move(formula), to_array(value)));
    if (!replacement)
        return value;
    if (is_observing_)
        throw std::logic_error("trace: " + path() + parse_step_label(step).name + " was replaced, but " +
                               (module_ ? module_->name : "its function") +
                               " only shows its steps: replace those of the reference");
    if (replacement->shape != shape_of(value))
        throw std::logic_error("trace: " + std::string(step) + " has the shape " + to_string(shape_of(value)) +
                               " and was replaced by one of " + to_string(replacement->shape));
    return from_array<T>(*replacement);
}

template <Traceable T>
const T& Trace::recorded_input(std::string_view step, const T& value) const
{
    if (listener_->find(path() + parse_step_label(step).name))
        return value;
    T recorded_value = recorded(step, "", value);
    return recorded_value == value ? value : listener_->keep(std::move(recorded_value));
}

#define ATTN_INSTANTIATE(T)                                                                                            \
    template T Trace::recorded(std::string_view, std::string, T) const;                                                \
    template const T& Trace::recorded_input(std::string_view, const T&) const;
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
