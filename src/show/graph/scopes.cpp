#include "scopes.hpp"

#include <algorithm>

namespace attn::show {
namespace {

bool is_number(std::string_view word)
{
    return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

} // namespace

std::vector<std::string_view> scopes_in(std::string_view scope, std::string_view path, std::size_t most)
{
    std::vector<std::string_view> scopes;
    bool can_take_number = false;
    std::size_t begin = scope.empty() ? 0 : scope.size() + 1;
    for (std::size_t end = path.find('.', begin); end != std::string_view::npos; end = path.find('.', begin)) {
        const bool is_of_last = is_number(path.substr(begin, end - begin)) && can_take_number;
        if (!is_of_last && scopes.size() == most)
            break;
        if (is_of_last)
            scopes.back() = path.substr(0, end);
        else
            scopes.push_back(path.substr(0, end));
        can_take_number = !is_of_last && !is_number(path.substr(begin, end - begin));
        begin = end + 1;
    }
    return scopes;
}

bool is_inside(std::string_view scope, std::string_view path)
{
    return scope.empty() || (path.size() > scope.size() && path.starts_with(scope) && path[scope.size()] == '.');
}

} // namespace attn::show
