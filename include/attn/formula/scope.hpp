#pragma once

#include "attn/recording.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace attn {

/// Finds what a name means in the formula of a step: what the innermost scope has under that name.
///
/// In the formula of `encoder.head.0.scores`, `keys` is `encoder.head.0.keys`, else `encoder.head.keys`,
/// `encoder.keys`, or `keys`.
/// @param path     of the step whose formula it is
/// @param name     a name or a dotted path
/// @param by_path  finds what a whole path means: something that is false where there is nothing
template <class ByPath>
auto resolve(std::string_view path, std::string_view name, const ByPath& by_path)
{
    std::string scope(path.substr(0, path.rfind('.') + 1)); // without a dot the root: npos + 1 is 0
    while (true) {
        auto found = by_path(scope + std::string(name));
        if (found || scope.empty())
            return found;
        scope.pop_back();
        scope.resize(scope.rfind('.') + 1);
    }
}

/// The steps of a recording by their names, aliases among them. Refers to the recording, which outlives it.
class StepNames {
public:
    explicit StepNames(const Recording& recording);

    /// The number of the step that a whole path means; nothing where no step has it.
    std::optional<std::size_t> find(std::string_view path) const;

    /// The number of the step that a name in the formula of a step means, among the steps before it.
    std::optional<std::size_t> resolve(std::size_t step, std::string_view name) const;

private:
    const Recording& recording_;
    std::unordered_map<std::string_view, std::size_t> numbers_;
};

} // namespace attn
