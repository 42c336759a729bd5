#pragma once

#include "attn/files/npz.hpp"

#include <string>
#include <utility>
#include <vector>

namespace attn::test {

/// The same tensors under other names.
inline files::NamedArrays renamed(const files::NamedArrays& arrays,
                                  const std::vector<std::pair<std::string, std::string>>& names)
{
    files::NamedArrays result;
    for (const auto& [name, array] : arrays) {
        std::string other = name;
        for (const auto& [from, to] : names)
            if (const std::size_t at = other.find(from); at != std::string::npos)
                other.replace(at, from.size(), to);
        result[other] = array;
    }
    return result;
}

} // namespace attn::test
