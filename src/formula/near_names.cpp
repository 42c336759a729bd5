#include "near_names.hpp"

#include "attn/error.hpp"
#include "attn/formula/scope.hpp"
#include "attn/step_name.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace attn {
namespace {

std::string_view last_word(std::string_view path) { return path.substr(path.rfind('.') + 1); }

} // namespace

std::string suggestion(const std::vector<std::string_view>& names, std::string_view name)
{
    constexpr std::size_t most = 3, longest = 200;
    std::vector<std::pair<std::size_t, std::string_view>> near;
    if (name.size() > longest)
        return {};
    for (const std::string_view candidate : names) {
        const std::size_t far = candidate.size() > longest ? longest : edit_distance(name, candidate);
        if (far <= 1 + name.size() / 5)
            near.emplace_back(far, candidate);
        else if (edit_distance(last_word(name), last_word(candidate).substr(0, longest)) <= 1)
            near.emplace_back(longest, candidate);
    }
    std::ranges::stable_sort(near, {}, &std::pair<std::size_t, std::string_view>::first);
    std::string text;
    for (std::size_t i = 0; i < std::min(most, near.size()); ++i)
        text += (i == 0 ? "; did you mean " : " or ") + std::string(near[i].second);
    return text.empty() ? text : text + "?";
}

std::size_t find_step(const Recording& recording, std::string_view path)
{
    if (const std::optional<std::size_t> found = StepNames(recording).find(path))
        return *found;
    std::vector<std::string_view> paths;
    for (const Step& step : recording.steps)
        paths.push_back(step.path);
    throw Error("no step is called " + std::string(path.substr(0, 200)) + suggestion(paths, path));
}

} // namespace attn
