// Tensors that hold several maps, one below the other.

#include "family.hpp"

#include "attn/core/error.hpp"

#include <vector>

namespace attn::files {
namespace {

/// Rows of a packed tensor that belong to one of its maps: the first, and how many.
struct Rows {
    std::size_t first, count;
};

/// A map of a packed tensor.
struct Part {
    std::string name; ///< "query"
    std::vector<Rows> rows;
};

/// How many rows each of the maps has in each of the groups, one after the other: [q q k v][q q k v].
std::vector<Part> in_groups(const std::vector<std::pair<std::string, std::size_t>>& maps, std::size_t groups)
{
    std::vector<Part> parts;
    for (const auto& map : maps)
        parts.push_back({map.first, {}});
    std::size_t next = 0;
    for (std::size_t group = 0; group < groups; ++group)
        for (std::size_t i = 0; i < maps.size(); ++i) {
            parts[i].rows.push_back({next, maps[i].second});
            next += maps[i].second;
        }
    return parts;
}

/// The maps of a tensor of so many rows, and where they lie.
std::vector<Part> parts_of(const std::string& packing, std::size_t rows, const Settings& settings)
{
    if (packing == "gate, up")
        return in_groups({{"gate", rows / 2}, {"up", rows / 2}}, 1);
    const std::size_t heads = settings.heads, shared = settings.key_value_heads.value_or(heads);
    if (shared == 0 || heads % shared != 0)
        throw Error(std::to_string(heads) + " heads can't be divided among " + std::to_string(shared) +
                    " key/value heads");
    const std::size_t width = rows / (heads + 2 * shared);
    if (packing == "query, key, value by group")
        return in_groups({{"query", heads / shared * width}, {"key", width}, {"value", width}}, shared);
    if (packing == "query, key, value")
        return in_groups({{"query", heads * width}, {"key", shared * width}, {"value", shared * width}}, 1);
    throw std::logic_error("a family's file packs \"" + packing + "\", which is not known");
}

Array rows_of(const Array& packed, const Part& part)
{
    const std::size_t width = packed.size() / packed.shape.front();
    Array map{.shape = packed.shape, .values = {}, .type = packed.type};
    map.shape.front() = 0;
    for (const Rows& rows : part.rows) {
        const auto first = packed.values.begin() + static_cast<std::ptrdiff_t>(rows.first * width);
        map.values.insert(map.values.end(), first, first + static_cast<std::ptrdiff_t>(rows.count * width));
        map.shape.front() += rows.count;
    }
    return map;
}

/// The packing of a tensor, and where the part of its name ends that says so; nothing where it is not packed.
const Json* packing_of(const std::string& name, const Json& unpack, std::size_t& end)
{
    for (const auto& [packed, packing] : unpack.items())
        if (const std::size_t at = name.find(packed + "."); at != std::string::npos) {
            end = at + packed.size();
            return &packing;
        }
    return nullptr;
}

} // namespace

NamedArrays unpacked(NamedArrays arrays, const Json& unpack, const Settings& settings)
{
    NamedArrays all;
    for (auto& [name, array] : arrays) {
        std::size_t end = 0;
        const Json* packing = packing_of(name, unpack, end);
        if (packing == nullptr || array.rank() == 0 || array.size() == 0) {
            all.emplace(name, std::move(array));
            continue;
        }
        std::size_t rows = 0;
        const std::vector<Part> parts = parts_of(packing->get<std::string>(), array.shape.front(), settings);
        for (const Part& part : parts)
            for (const Rows& of_part : part.rows)
                rows += of_part.count;
        if (rows != array.shape.front())
            throw Error(name + " " + to_string(array.shape) + " can't be divided into " + packing->get<std::string>() +
                        " of " + std::to_string(settings.heads) + " heads");
        for (const Part& part : parts)
            all.emplace(name.substr(0, end) + "." + part.name + name.substr(end), rows_of(array, part));
    }
    return all;
}

} // namespace attn::files
