#include "attn/recording.hpp"

#include <algorithm>
#include <stdexcept>

namespace attn {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_letter_or_digit(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

} // namespace

bool is_step_name(std::string_view text)
{
    return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, is_letter_or_digit);
}

StepLabel parse_step_label(std::string_view text)
{
    const auto malformed = [&] {
        return std::logic_error("trace: \"" + std::string(text) + "\" is no step name such as scores or scores[n, m]");
    };
    const std::size_t bracket = std::min(text.find('['), text.size());
    StepLabel label{std::string(text.substr(0, bracket)), {}};
    if (!is_step_name(label.name))
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
        if (!is_step_name(label.axes.back()))
            throw malformed();
        if (end == rest.size())
            return label;
        rest.remove_prefix(end + separator.size());
    }
}

std::optional<Array> Listener::hear(const Step& step)
{
    take(step.path, step.path);
    return on_step(step);
}

void Listener::hear(const Alias& alias)
{
    take(alias.path, alias.target);
    on_alias(alias);
}

void Listener::take(const std::string& path, const std::string& target)
{
    if (!targets_.emplace(path, target).second)
        throw std::logic_error("trace: two steps are called " + path + ": give each a scope of its own");
}

std::optional<std::string_view> Listener::heard(std::string_view path) const
{
    const auto found = targets_.find(path);
    return found == targets_.end() ? std::nullopt : std::optional<std::string_view>(found->second);
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

void Listeners::on_alias(const Alias& alias)
{
    for (Listener* listener : listeners_)
        listener->hear(alias);
}

} // namespace attn
