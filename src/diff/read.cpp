// The files that a program wrote: one .npz file, or a folder of .npy files.

#include "read.hpp"

#include "attn/files/file.hpp"
#include "attn/files/npy.hpp"
#include "attn/files/npz.hpp"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

namespace attn::diff {
namespace {

namespace fs = std::filesystem;

Array read_npy(const fs::path& path, std::size_t most_elements)
{
    std::ifstream file = files::open_file(path, "an .npy file");
    const files::ByteSource source = [&](std::span<char> buffer) {
        file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
        return static_cast<std::size_t>(file.gcount());
    };
    return files::about_file(path, "", [&] { return files::decode_npy(source, most_elements); });
}

/// Its place in the folder, with dots for slashes and without the ending.
std::string name_in(const fs::path& folder, const fs::path& file)
{
    std::string name = file.lexically_relative(folder).replace_extension().generic_string();
    std::ranges::replace(name, '/', '.');
    return name;
}

void read_folder(const fs::path& folder, const TakeArray& take)
{
    std::vector<fs::path> files;
    std::error_code error;
    for (auto entry = fs::recursive_directory_iterator(folder, error);
         !error && entry != fs::recursive_directory_iterator(); entry.increment(error))
        if (entry->path().extension() == ".npy")
            files.push_back(entry->path());
    if (error)
        throw files::FileError(folder, "cannot be read: " + error.message());
    if (files.empty())
        throw files::FileError(folder, "is a folder without .npy files, expected one array per file");
    std::ranges::sort(files);

    std::set<std::string> names;
    std::size_t elements_left = files::NpzLimits{}.elements;
    for (const fs::path& file : files) {
        const std::string name = name_in(folder, file);
        if (!names.insert(name).second)
            throw files::FileError(folder, "has two files that are both called " + name);
        Array array = read_npy(file, elements_left);
        elements_left -= array.size();
        take(name, std::move(array));
    }
}

} // namespace

void read_each_array(const fs::path& path, const TakeArray& take)
{
    std::error_code error;
    if (fs::is_directory(path, error))
        read_folder(path, take);
    else
        files::read_npz_each(path, take);
}

} // namespace attn::diff
