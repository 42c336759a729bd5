#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace attn::mistakes {

/// A path that is inside the scope of a head, in parts: "encoder." "3" ".scores" of encoder.head.3.scores.
struct HeadScope {
    std::string_view before, number, rest;
};

/// True for a text of digits only, few enough for an int.
inline bool is_number(std::string_view text)
{
    return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// The innermost head that a path is inside of; nothing where there is none.
inline std::optional<HeadScope> head_scope(std::string_view path)
{
    constexpr std::string_view scope = "head.";
    for (std::size_t at = path.rfind(scope); at != std::string_view::npos; at = path.rfind(scope, at - 1)) {
        const std::size_t begin = at + scope.size(), end = path.find('.', begin);
        if ((at == 0 || path[at - 1] == '.') && end != std::string_view::npos &&
            is_number(path.substr(begin, end - begin)))
            return HeadScope{path.substr(0, at), path.substr(begin, end - begin), path.substr(end)};
        if (at == 0)
            break;
    }
    return std::nullopt;
}

} // namespace attn::mistakes
