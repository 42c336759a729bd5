// Where weights come from and go to.

#include "attn/files/weights/state_dict.hpp"

#include "attn/files/file.hpp"
#include "attn/files/safetensors.hpp"

namespace attn::files {
namespace {

bool is_safetensors(const std::filesystem::path& path)
{
    if (path.extension() != ".safetensors" && path.extension() != ".npz")
        throw FileError(path, "is neither .safetensors nor .npz by its name; with PyTorch, write one by "
                              "safetensors.torch.save_file(model.state_dict(), …) or numpy.savez");
    return path.extension() == ".safetensors";
}

} // namespace

NamedArrays read_weights(const std::filesystem::path& path, std::string_view prefix)
{
    NamedArrays all = is_safetensors(path) ? read_safetensors(path) : read_npz(path);
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
