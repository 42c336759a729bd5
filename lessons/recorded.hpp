#pragma once

#include "lesson.hpp"

#include <string_view>
#include <utility>

namespace attn {

/// What a function gave back, as the step that it recorded.
/// @param name    of the step
/// @param inside  the scope that the function was given
template <Traceable T>
Term<T> recorded(T value, std::string_view name, const Trace& inside)
{
    return {std::move(value), inside.known(name)};
}

/// A step that a function recorded and did not give back.
/// @param path  in the lesson's trace
template <Traceable T>
Term<T> recorded(const Lesson& lesson, std::string_view path)
{
    return {from_array<T>(lesson.recording().at(path).value), lesson.trace().known(path)};
}

} // namespace attn
