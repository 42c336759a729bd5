#include "attn/core/recording.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <stdexcept>

namespace attn {

const Step* Recording::find(std::string_view path) const
{
    const auto alias = std::ranges::find(aliases, path, &Alias::path);
    const auto step = std::ranges::find(steps, alias == aliases.end() ? path : alias->target, &Step::path);
    return step == steps.end() ? nullptr : &*step;
}

const Step& Recording::at(std::string_view path) const
{
    if (const Step* const step = find(path))
        return *step;
    std::vector<std::string_view> paths;
    for (const Step& step : steps)
        paths.push_back(step.path);
    throw Error(no_step_is_called(path, paths));
}

std::optional<Array> Listener::record(const Step& step)
{
    take(step.path, step.path);
    return on_step(step);
}

void Listener::record(const Alias& alias)
{
    take(alias.path, alias.target);
    on_alias(alias);
}

void Listener::take(const std::string& path, const std::string& target)
{
    if (!targets_.emplace(path, target).second)
        throw std::logic_error("trace: two steps are called " + path + ": give each a scope of its own");
}

std::optional<std::string_view> Listener::find(std::string_view path) const
{
    const auto found = targets_.find(path);
    return found == targets_.end() ? std::nullopt : std::optional<std::string_view>(found->second);
}

std::optional<Array> Listeners::on_step(const Step& step)
{
    Step replaced; // a copy of the step, where a listener has replaced its value
    const Step* current = &step;
    for (Listener* listener : listeners_)
        if (std::optional<Array> replacement = listener->record(*current)) {
            if (current == &step)
                replaced = {step.path, step.formula, step.axes, step.module, step.options, {}};
            replaced.value = *std::move(replacement);
            current = &replaced;
        }
    return current == &step ? std::nullopt : std::optional(std::move(replaced.value));
}

void Listeners::on_alias(const Alias& alias)
{
    for (Listener* listener : listeners_)
        listener->record(alias);
}

} // namespace attn
