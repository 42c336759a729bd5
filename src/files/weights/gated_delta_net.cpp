#include "attn/files/weights/gated_delta_net.hpp"

#include "attn/core/error.hpp"

#include <string_view>
#include <utility>
#include <vector>

namespace attn::files {
namespace {

/// A packed tensor: its maps, how many rows each has in a group, and how many groups lie one below the other.
struct PackedMaps {
    std::string_view name; ///< "in_proj_qkvz"
    std::vector<std::pair<std::string_view, std::size_t>> maps;
    std::size_t groups;
};

std::vector<PackedMaps> packings_of(const DeltaNetHeads& sizes)
{
    const auto& [heads, key_heads, d_k, d_v] = sizes;
    if (key_heads == 0 || heads % key_heads != 0)
        throw Error(std::to_string(heads) + " heads of values can't be divided evenly among " +
                    std::to_string(key_heads) + " heads of keys");
    const std::size_t served = heads / key_heads; // heads of values by one of keys
    return {
        {"in_proj_qkvz",
         {{"in_proj_q", d_k}, {"in_proj_k", d_k}, {"in_proj_v", served * d_v}, {"in_proj_z", served * d_v}},
         key_heads},
        {"in_proj_ba", {{"in_proj_b", served}, {"in_proj_a", served}}, key_heads},
        {"in_proj_qkv",
         {{"in_proj_q", key_heads * d_k}, {"in_proj_k", key_heads * d_k}, {"in_proj_v", heads * d_v}},
         1},
    };
}

/// Adds the maps of a packed tensor.
/// @param before  what stands before its name: "layers.0.linear_attn."
void take_apart(NamedArrays& all, const Array& packed, const PackedMaps& packing, const std::string& before)
{
    const std::string name = before + std::string(packing.name) + ".weight";
    std::size_t of_group = 0;
    for (const auto& [map, rows] : packing.maps)
        of_group += rows;
    if (packed.rank() != 2 || packed.shape[0] != packing.groups * of_group)
        throw Error(name + " is " + to_string(packed.shape) + ", expected " +
                    std::to_string(packing.groups * of_group) + " rows: " + std::to_string(packing.groups) + " times " +
                    std::to_string(of_group));
    auto next = packed.values.begin();
    for (std::size_t group = 0; group < packing.groups; ++group)
        for (const auto& [map, rows] : packing.maps) {
            Array& part = all[before + std::string(map) + ".weight"];
            if (group == 0 && !part.values.empty())
                throw Error(name + " holds " + before + std::string(map) + ".weight, which is there by itself, too");
            const auto end = next + static_cast<std::ptrdiff_t>(rows * packed.shape[1]);
            part.values.insert(part.values.end(), next, end);
            part.shape = {packing.groups * rows, packed.shape[1]};
            part.type = packed.type;
            next = end;
        }
}

DeltaNetHeads heads_of_layer(const NamedArrays& arrays, std::size_t key_heads)
{
    const auto shape_of = [&](const std::string& name, std::size_t rank) {
        const auto found = arrays.find(name);
        if (found == arrays.end())
            throw Error(name + " is missing");
        if (found->second.rank() != rank || found->second.size() == 0)
            throw Error(name + " is " + to_string(found->second.shape) + ", expected " + std::to_string(rank) +
                        (rank == 1 ? " axis" : " axes"));
        return found->second.shape;
    };
    const std::size_t heads = shape_of("A_log", 1)[0], d_v = shape_of("norm.weight", 1)[0];
    const std::size_t mixed = shape_of("conv1d.weight", 3)[0];
    if (mixed <= heads * d_v || (mixed - heads * d_v) % (2 * key_heads) != 0)
        throw Error("conv1d.weight has " + std::to_string(mixed) + " filters, expected 2 * " +
                    std::to_string(key_heads) + " * d_k for queries and keys, and " + std::to_string(heads) + " * " +
                    std::to_string(d_v) + " for values: how many heads of keys are there?");
    return {heads, key_heads, (mixed - heads * d_v) / (2 * key_heads), d_v};
}

} // namespace

NamedArrays delta_net_unpacked(NamedArrays arrays, const DeltaNetHeads& heads)
{
    for (const PackedMaps& packing : packings_of(heads)) {
        const std::string ending = std::string(packing.name) + ".weight";
        std::vector<std::string> packed;
        for (const auto& [name, array] : arrays)
            if (name == ending || name.ends_with("." + ending))
                packed.push_back(name);
        for (const std::string& name : packed) {
            const Array array = std::move(arrays.extract(name).mapped());
            take_apart(arrays, array, packing, name.substr(0, name.size() - ending.size()));
        }
    }
    return arrays;
}

NamedArrays delta_net_unpacked(NamedArrays arrays, const std::optional<std::size_t>& key_heads)
{
    const bool is_packed = arrays.contains("in_proj_qkvz.weight") || arrays.contains("in_proj_qkv.weight");
    if (!is_packed)
        return arrays;
    if (!key_heads)
        throw Error(
            "in_proj_qkvz or in_proj_qkv holds maps of several heads: say how many heads of queries and keys there "
            "are, linear_num_key_heads of config.json");
    const DeltaNetHeads heads = heads_of_layer(arrays, *key_heads);
    return delta_net_unpacked(std::move(arrays), heads);
}

} // namespace attn::files
