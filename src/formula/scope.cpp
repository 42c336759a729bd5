#include "attn/formula/scope.hpp"

#include <string>

namespace attn {

const Array* resolve(std::string_view path, std::string_view name, const Lookup& by_path)
{
    std::string scope(path.substr(0, path.rfind('.') + 1)); // without a dot the root: npos + 1 is 0
    while (true) {
        if (const Array* found = by_path(scope + std::string(name)))
            return found;
        if (scope.empty())
            return nullptr;
        scope.pop_back();
        scope.resize(scope.rfind('.') + 1);
    }
}

} // namespace attn
