#pragma once

#include "attn/core/recording.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace attn::formula {

/// What the path of a step's gradient begins with; the rest is the path of the step.
inline constexpr std::string_view gradient_scope = "grad.";

/// Finds what a name means in the formula of a step: what the innermost scope has under that name.
///
/// In the formula of `encoder.head.0.scores`, `keys` is `encoder.head.0.keys`, else `encoder.head.keys`,
/// `encoder.keys`, or `keys`.
///
/// A gradient's formula stands in the scope of the step that it is the gradient of. In that of `grad.head.0.scores`, `keys` is
/// `head.0.keys` as above, and `grad.keys` is the gradient of that, `grad.head.0.keys`.
/// @param path     of the step whose formula it is
/// @param name     a name or a dotted path
/// @param by_path  finds what a whole path means: something that is false where there is nothing
template <class ByPath>
auto resolve(std::string_view path, std::string_view name, const ByPath& by_path)
{
    std::string before;
    if (path.starts_with(gradient_scope)) {
        path.remove_prefix(gradient_scope.size());
        if (name.starts_with(gradient_scope)) {
            name.remove_prefix(gradient_scope.size());
            before = gradient_scope;
        }
    }
    std::string scope(path.substr(0, path.rfind('.') + 1)); // without a dot the root: npos + 1 is 0
    while (true) {
        auto found = by_path(before + scope + std::string(name));
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

    /// The same; where no step before it has that name, a later step, of the innermost scope that has one. A program
    /// that computes in another order can use such a step.
    std::optional<std::size_t> resolve_any(std::size_t step, std::string_view name) const;

private:
    const Recording& recording_;
    std::unordered_map<std::string_view, std::size_t> numbers_;
};

/// The number of the step that a path means; the other name of a step means that step.
/// @throws Error  where there is no such step, with those of similar names
std::size_t find_step(const Recording& recording, std::string_view path);

} // namespace attn::formula
