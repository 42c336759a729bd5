// Where weights come from and go to.

#include "attn/files/weights/state_dict.hpp"

#include "attn/files/file.hpp"
#include "attn/files/json_file.hpp"
#include "attn/files/safetensors.hpp"

#include <set>

namespace attn::files {
namespace {

bool is_safetensors(const std::filesystem::path& path)
{
    if (path.extension() != ".safetensors" && path.extension() != ".npz")
        throw FileError(path, "is neither .safetensors nor .npz by its name; with PyTorch, write one by "
                              "safetensors.torch.save_file(model.state_dict(), …) or numpy.savez");
    return path.extension() == ".safetensors";
}

/// The files of a model in parts, as its index lists them.
std::set<std::string> shards_in(const std::filesystem::path& index_file)
{
    const nlohmann::json index = read_json_object(index_file, R"(an index: {"weight_map": {"name": "file", ...}})");
    const auto map = index.find("weight_map");
    if (map == index.end() || !map->is_object() || map->empty())
        throw FileError(index_file, "has no weight_map, which says in which file each tensor is");
    std::set<std::string> files;
    for (const auto& [tensor, file] : map->items()) {
        if (!file.is_string() || std::filesystem::path(file.get<std::string>()).filename() != file.get<std::string>())
            throw FileError(index_file, "has for " + tensor + " the file " + file.dump() + ", expected its name");
        files.insert(file.get<std::string>());
    }
    return files;
}

/// The weights of a folder: in one file, or in parts with an index.
NamedArrays read_folder(const std::filesystem::path& folder, const NameFilter& is_wanted)
{
    const std::filesystem::path index = folder / "model.safetensors.index.json";
    if (!std::filesystem::exists(index)) {
        const std::filesystem::path npz = folder / "model.npz";
        return std::filesystem::exists(npz) ? read_npz(npz, {}, is_wanted)
                                            : read_safetensors(folder / "model.safetensors", {}, is_wanted);
    }
    NamedArrays all;
    for (const std::string& shard : shards_in(index))
        for (auto& [name, array] : read_safetensors(folder / shard, {}, is_wanted))
            if (!all.emplace(name, std::move(array)).second)
                throw FileError(folder / shard, "has a tensor " + name + ", which another part has, too");
    return all;
}

NamedArrays read_file(const std::filesystem::path& path, const NameFilter& is_wanted)
{
    return is_safetensors(path) ? read_safetensors(path, {}, is_wanted) : read_npz(path, {}, is_wanted);
}

} // namespace

NamedArrays read_weights(const std::filesystem::path& path, std::string_view prefix, const NameFilter& is_wanted)
{
    NamedArrays all = std::filesystem::is_directory(path) ? read_folder(path, is_wanted) : read_file(path, is_wanted);
    if (prefix.empty())
        return all;
    NamedArrays chosen;
    for (auto& [name, array] : all)
        if (name.starts_with(prefix))
            chosen.emplace(name.substr(prefix.size()), std::move(array));
    if (chosen.empty())
        throw FileError(path, "has no tensor whose name begins with \"" + std::string(prefix) + "\"");
    return chosen;
}

void write_weights(const std::filesystem::path& path, const NamedArrays& weights)
{
    if (is_safetensors(path))
        write_safetensors(path, weights);
    else
        write_npz(path, {{}, {weights.begin(), weights.end()}, {}});
}

} // namespace attn::files
