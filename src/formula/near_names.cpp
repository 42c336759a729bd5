#include "near_names.hpp"

#include "attn/error.hpp"
#include "attn/formula/scope.hpp"
#include "attn/step_name.hpp"

#include <optional>

namespace attn {
std::size_t find_step(const Recording& recording, std::string_view path)
{
    if (const std::optional<std::size_t> found = StepNames(recording).find(path))
        return *found;
    std::vector<std::string_view> paths;
    for (const Step& step : recording.steps)
        paths.push_back(step.path);
    throw Error(no_step_is_called(path, paths));
}

} // namespace attn
