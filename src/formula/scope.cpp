#include "attn/formula/scope.hpp"

#include "attn/core/budget.hpp"
#include "attn/core/error.hpp"
#include "attn/core/step_name.hpp"

namespace attn::formula {

StepNames::StepNames(const Recording& recording) : recording_(recording)
{
    for (std::size_t i = 0; i < recording.steps.size(); ++i)
        numbers_.emplace(recording.steps[i].path, i);
    for (const Alias& alias : recording.aliases)
        if (const std::optional<std::size_t> target = find(alias.target))
            numbers_.emplace(alias.path, *target);
}

std::optional<std::size_t> StepNames::find(std::string_view path) const
{
    // A name is looked for in each scope around, and a path can be scopes of single letters for half a megabyte.
    constexpr double least = 20, operations_each = 0.5; // of its characters
    spend(least + operations_each * static_cast<double>(path.size()));
    const auto found = numbers_.find(path);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::size_t> StepNames::resolve(std::size_t step, std::string_view name) const
{
    return formula::resolve(recording_.steps[step].path, name,
                            [&](std::string_view path) -> std::optional<std::size_t> {
                                const std::optional<std::size_t> found = find(path);
                                return found && *found < step ? found : std::nullopt;
                            });
}

std::optional<std::size_t> StepNames::resolve_any(std::size_t step, std::string_view name) const
{
    if (const std::optional<std::size_t> earlier = resolve(step, name))
        return earlier;
    return formula::resolve(recording_.steps[step].path, name,
                            [&](std::string_view path) -> std::optional<std::size_t> {
                                const std::optional<std::size_t> found = find(path);
                                return found && *found != step ? found : std::nullopt;
                            });
}

std::size_t find_step(const Recording& recording, std::string_view path)
{
    if (const std::optional<std::size_t> found = StepNames(recording).find(path))
        return *found;
    std::vector<std::string_view> paths;
    for (const Step& step : recording.steps)
        paths.push_back(step.path);
    throw Error(no_step_is_called(path, paths));
}

} // namespace attn::formula
