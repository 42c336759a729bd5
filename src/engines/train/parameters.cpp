#include "attn/engines/train/parameters.hpp"

#include <algorithm>
#include <stdexcept>

namespace attn::train {

const ParameterPlace& ParameterTable::at(std::string_view name, std::size_t part) const
{
    const auto found = std::ranges::find_if(
        places, [&](const ParameterPlace& place) { return place.name == name && place.part == part; });
    if (found == places.end())
        throw std::logic_error("parameters: there is no " + std::string(name));
    return *found;
}

} // namespace attn::train
