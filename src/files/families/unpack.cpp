// Tensors that hold several maps: of queries, keys and values, of a gated network, or of all experts of a layer.

#include "family.hpp"

#include "attn/core/error.hpp"
#include "attn/files/weights/gated_delta_net.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace attn::files {
namespace {

/// Rows of a packed tensor that belong to one of its maps: the first, and how many.
struct Rows {
    std::size_t first, count;
};

struct Part {
    std::string name; ///< "query"
    std::vector<Rows> rows;
};

/// A row is a tensor of its own, 0, 1, …: norms of heads.
constexpr std::string_view by_rows = "row by row";

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
    if (packing == "query, output_gate by head") {
        const std::size_t width = rows / 2 / settings.heads;
        return in_groups({{"query", width}, {"output_gate", width}}, settings.heads);
    }
    if (packing == by_rows) {
        std::vector<Part> parts;
        for (std::size_t row = 0; row < rows; ++row)
            parts.push_back({std::to_string(row), {{row, 1}}});
        return parts;
    }
    const std::size_t heads = settings.heads, shared = settings.key_value_heads.value_or(heads);
    const std::size_t width = rows / (heads + 2 * shared);
    if (packing == "query, key, value by group")
        return in_groups({{"query", heads / shared * width}, {"key", width}, {"value", width}}, shared);
    if (packing == "query, key, value")
        return in_groups({{"query", heads * width}, {"key", shared * width}, {"value", shared * width}}, 1);
    if (packing == "query, value, key by quarter") // CodeGen was trained on four devices
        return in_groups({{"query", rows / 12}, {"value", rows / 12}, {"key", rows / 12}}, 4);
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

/// A tensor that another one held, which the file must not have by itself, too.
void add(NamedArrays& all, const std::string& name, Array array, const std::string& packed)
{
    if (!all.emplace(name, std::move(array)).second)
        throw Error(packed + " holds " + name + ", which is there by itself, too");
}

// ------------------------------------------------------------------------------------------------ one below the other

NamedArrays maps_apart(NamedArrays arrays, const Json& unpack, const Settings& settings)
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
        for (const Part& part : parts) {
            Array map = rows_of(array, part);
            if (*packing == by_rows)
                map.shape.erase(map.shape.begin());
            add(all, name.substr(0, end) + "." + part.name + name.substr(end), std::move(map), name);
        }
    }
    return all;
}

// --------------------------------------------------------------------------------------------------- expert by expert

/// A tensor of all experts: (experts, in, columns), or of their biases (experts, columns). The columns are those of its parts,
/// one after the other, or in turn: gate, up, gate, up.
struct PackedExperts {
    std::vector<std::string> parts; ///< "gate_proj.weight"
    bool are_in_turn;

    explicit PackedExperts(const Json& entry)
        : parts(entry["parts"].get<std::vector<std::string>>()), are_in_turn(entry.value("columns", "") == "in turn")
    {
    }

    bool are_biases() const { return parts.front().ends_with(".bias"); }

    void expect_divisible(const std::string& name, const Array& array) const
    {
        const std::size_t rank = are_biases() ? 2 : 3;
        if (array.rank() != rank || array.size() == 0 || array.shape.back() % parts.size() != 0)
            throw Error(name + " is " + to_string(array.shape) + ", expected " +
                        (are_biases() ? "(experts, " : "(experts, in, ") + std::to_string(parts.size()) + " * out)");
    }

    /// A part of one expert, as nn.Linear stores it: (out, in), or a bias (out).
    Array part(const Array& all, std::size_t expert, std::size_t part) const
    {
        const std::size_t columns = all.shape.back(), out = columns / parts.size();
        const std::size_t in = are_biases() ? 1 : all.shape[1];
        Array map{.shape = are_biases() ? Shape{out} : Shape{out, in}, .values = {}, .type = all.type};
        map.values.reserve(out * in);
        for (std::size_t j = 0; j < out; ++j)
            for (std::size_t i = 0; i < in; ++i) {
                const std::size_t column = are_in_turn ? j * parts.size() + part : part * out + j;
                map.values.push_back(all.values[(expert * in + i) * columns + column]);
            }
        return map;
    }
};

/// Whether a tensor's name ends with another one, from its beginning or after a dot.
bool is_called(const std::string& name, const std::string& last) { return name == last || name.ends_with("." + last); }

NamedArrays experts_apart(NamedArrays arrays, const Json& packed_experts)
{
    for (const auto& [packed, entry] : packed_experts.items()) {
        const PackedExperts packing(entry);
        NamedArrays all;
        for (auto& [name, array] : arrays) {
            if (!is_called(name, packed)) {
                all.emplace(name, std::move(array));
                continue;
            }
            packing.expect_divisible(name, array);
            const std::string experts = name.substr(0, name.rfind('.') + 1); // "model.layers.0.mlp.experts."
            for (std::size_t expert = 0; expert < array.shape.front(); ++expert)
                for (std::size_t part = 0; part < packing.parts.size(); ++part)
                    add(all, experts + std::to_string(expert) + "." + packing.parts[part],
                        packing.part(array, expert, part), name);
        }
        arrays = std::move(all);
    }
    return arrays;
}

// --------------------------------------------------------------------------------------------------------- other axes

/// Drops the first axes of one number: (1, 10, 24) becomes (10, 24).
Array squeezed(Array array)
{
    while (array.rank() > 1 && array.shape.front() == 1)
        array.shape.erase(array.shape.begin());
    return array;
}

/// (out, in, window) becomes (out, window in).
Array by_window(const Array& array, const std::string& name)
{
    if (array.rank() != 3)
        throw Error(name + " is " + to_string(array.shape) + ", expected (out, in, window)");
    Array map = permuted(array, {0, 2, 1});
    map.shape = {array.shape[0], array.shape[1] * array.shape[2]};
    return map;
}

bool is_listed(const std::string& name, const Json& list)
{
    return std::ranges::any_of(list, [&](const Json& last) { return is_called(name, last.get<std::string>()); });
}

NamedArrays in_our_axes(NamedArrays arrays, const Family& family)
{
    std::erase_if(
        arrays, [&](const auto& entry) { return entry.second.size() == 0 && is_listed(entry.first, family.squeezed); });
    for (auto& [name, array] : arrays) {
        if (is_listed(name, family.squeezed))
            array = squeezed(std::move(array));
        if (is_listed(name, family.kernels))
            array = by_window(array, name);
    }
    return arrays;
}

} // namespace

NamedArrays unpacked(NamedArrays arrays, const Family& family, const Settings& settings)
{
    arrays = in_our_axes(std::move(arrays), family);
    if (const auto& states = settings.states)
        arrays = delta_net_unpacked(std::move(arrays), {states->heads, states->key_heads, states->d_k, states->d_v});
    return experts_apart(maps_apart(std::move(arrays), family.unpack, settings), family.packed_experts);
}

} // namespace attn::files
