#include "attn/trace.hpp"

#include <algorithm>
#include <stdexcept>

namespace attn {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_letter_or_digit(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

bool is_name(std::string_view text)
{
    return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, is_letter_or_digit);
}

} // namespace

StepLabel parse_step_label(std::string_view text)
{
    const auto malformed = [&] {
        return std::logic_error("trace: \"" + std::string(text) + "\" is no step name such as scores or scores[n, m]");
    };
    const std::size_t bracket = std::min(text.find('['), text.size());
    StepLabel label{std::string(text.substr(0, bracket)), {}};
    if (!is_name(label.name))
        throw malformed();
    if (bracket == text.size())
        return label;
    if (text.back() != ']')
        throw malformed();

    constexpr std::string_view separator = ", ", batch = "(b,) ";
    std::string_view rest = text.substr(bracket + 1, text.size() - bracket - 2);
    label.may_be_batch = rest.starts_with(batch);
    if (label.may_be_batch)
        rest.remove_prefix(batch.size());
    while (true) {
        const std::size_t end = std::min(rest.find(separator), rest.size());
        label.axes.emplace_back(rest.substr(0, end));
        if (!is_name(label.axes.back()))
            throw malformed();
        if (end == rest.size())
            return label;
        rest.remove_prefix(end + separator.size());
    }
}

std::optional<Array> Listener::hear(const Step& step)
{
    if (!paths_.insert(step.path).second)
        throw std::logic_error("trace: two steps are called " + step.path + ": give each a scope of its own");
    return on_step(step);
}

std::optional<Array> Listeners::on_step(const Step& step)
{
    Step current = step;
    bool answered = false;
    for (Listener* listener : listeners_)
        if (std::optional<Array> answer = listener->hear(current)) {
            current.value = *std::move(answer);
            answered = true;
        }
    return answered ? std::optional(std::move(current.value)) : std::nullopt;
}

Trace Trace::scope(std::string_view name) const&
{
    if (listener_ != nullptr && !is_name(name))
        throw std::logic_error("trace: \"" + std::string(name) + "\" is no name for a scope");
    Trace child = *this;
    child.parent_ = this;
    child.name_ = name;
    child.index_.reset();
    return child;
}

Trace Trace::scope(std::string_view name, std::size_t index) const&
{
    Trace child = scope(name);
    child.index_ = index;
    return child;
}

Trace Trace::module(std::string_view name, const std::function<StepOptions()>& options) const&
{
    if (listener_ == nullptr)
        return {};
    Trace child = *this;
    child.parent_ = this;
    child.name_ = {};
    child.index_.reset();
    child.module_ = std::make_shared<const Module>(Module{std::string(name), options ? options() : StepOptions{}});
    return child;
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
    if (!label.axes.empty() && label.axes.size() != value.rank())
        throw std::logic_error("trace: " + std::string(step) + " has the shape " + to_string(value.shape));
    return {path() + label.name,
            std::move(formula),
            std::move(label.axes),
            module_ ? module_->name : "",
            module_ ? module_->options : StepOptions{},
            std::move(value)};
}

bool Trace::is_in_scope(std::string_view step) const
{
    const std::string name = parse_step_label(step).name;
    std::string scope = path(); // empty, or ends with a dot
    while (!listener_->has_heard(scope + name)) {
        if (scope.empty())
            return false;
        scope.pop_back();
        scope.resize(scope.rfind('.') + 1); // without a dot the root is left
    }
    return true;
}

template <Traceable T>
T Trace::heard(std::string_view step, std::string formula, T value) const
{
    const std::optional<Array> answer = listener_->hear(describe(step, std::move(formula), to_array(value)));
    if (!answer)
        return value;
    if (answer->shape != shape_of(value))
        throw std::logic_error("trace: " + std::string(step) + " has the shape " + to_string(shape_of(value)) +
                               " and was answered with " + to_string(answer->shape));
    return from_array<T>(*answer);
}

template <Traceable T>
void Trace::input_heard(std::string_view step, const T& value) const
{
    const Step described = describe(step, "", to_array(value));
    if (listener_->has_heard(described.path))
        return;
    const std::optional<Array> answer = listener_->hear(described);
    if (answer && !identical(*answer, described.value))
        throw std::logic_error("trace: " + described.path + " was answered where it is only passed on");
}

template double Trace::heard(std::string_view, std::string, double) const;
template Vector Trace::heard(std::string_view, std::string, Vector) const;
template Matrix Trace::heard(std::string_view, std::string, Matrix) const;
template Tensor3 Trace::heard(std::string_view, std::string, Tensor3) const;
template Tensor4 Trace::heard(std::string_view, std::string, Tensor4) const;
template Mask Trace::heard(std::string_view, std::string, Mask) const;
template BatchMask Trace::heard(std::string_view, std::string, BatchMask) const;
template void Trace::input_heard(std::string_view, const double&) const;
template void Trace::input_heard(std::string_view, const Vector&) const;
template void Trace::input_heard(std::string_view, const Matrix&) const;
template void Trace::input_heard(std::string_view, const Tensor3&) const;
template void Trace::input_heard(std::string_view, const Tensor4&) const;
template void Trace::input_heard(std::string_view, const Mask&) const;
template void Trace::input_heard(std::string_view, const BatchMask&) const;

} // namespace attn
