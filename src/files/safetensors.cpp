#include "attn/files/safetensors.hpp"

#include "attn/files/file.hpp"
#include "elements.hpp"
#include "safetensors_header.hpp"

#include <algorithm>
#include <fstream>
#include <new>
#include <span>
#include <tuple>

namespace attn::files {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t length_bytes = 8; // of the length of the header, in front of it
constexpr std::size_t alignment = 8;    // of the data in the file, so that it can be mapped into memory

// ------------------------------------------------------------------------------------------------ reading

class Reader {
public:
    /// @throws FileError  where it is no regular file or cannot be opened
    explicit Reader(const fs::path& path) : file_(open_file(path, "a .safetensors file"))
    {
        file_.seekg(0, std::ios::end);
        size_ = static_cast<std::size_t>(file_.tellg());
        file_.seekg(0);
    }

    std::size_t size() const { return size_; }

    /// Fills the buffer as far as the file reaches.
    std::size_t operator()(std::span<char> buffer)
    {
        file_.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
        return static_cast<std::size_t>(file_.gcount());
    }

    void seek(std::size_t byte) { file_.seekg(static_cast<std::streamoff>(byte)); }

    /// @param count  no more than the file has
    std::string text(std::size_t count)
    {
        std::string text(count, '\0');
        if ((*this)(text) < count)
            throw Error("cannot be read to its end");
        return text;
    }

private:
    std::ifstream file_;
    std::size_t size_ = 0;
};

/// Calls a function that works on a tensor, and names the tensor in its error.
template <class F>
auto about_tensor(const std::string& name, F&& action)
{
    try {
        return action();
    } catch (const std::bad_alloc&) {
        throw Error(tensor_called(name) + " does not fit into memory");
    } catch (const Error& error) {
        throw Error(tensor_called(name) + ' ' + error.what());
    }
}

std::string read_header(Reader& file)
{
    if (file.size() < length_bytes)
        throw Error("has " + std::to_string(file.size()) + " bytes and is no whole .safetensors file, which begins " +
                    "with the length of its header in 8");
    const auto length = little_endian<std::uint64_t>(file.text(length_bytes).data());
    if (length > longest_safetensors_header)
        throw Error("says that its header has " + std::to_string(length) + " bytes, more than the " +
                    std::to_string(longest_safetensors_header) + " of a .safetensors file");
    if (length > file.size() - length_bytes)
        throw Error("is truncated: its header has " + std::to_string(file.size() - length_bytes) + " of " +
                    std::to_string(length) + " bytes; fetch it again");
    return file.text(length);
}

/// Tensors in the order of their data.
using Layout = std::vector<StoredTensors::const_pointer>;

/// One tensor begins where the one before ended, and the last ends with the file.
void expect_exact_cover(const Layout& layout, std::size_t data_bytes)
{
    std::size_t end = 0;
    for (const auto* entry : layout) {
        const auto& [name, tensor] = *entry;
        if (tensor.begin != end)
            throw Error(tensor_called(name) + " begins at byte " + std::to_string(tensor.begin) +
                        " of the data, expected " + std::to_string(end) + ": tensors leave no hole and don't overlap");
        if (tensor.end > data_bytes)
            throw Error("is truncated: " + tensor_called(name) + " ends at byte " + std::to_string(tensor.end) +
                        " of the data, which has " + std::to_string(data_bytes) + "; fetch it again");
        end = tensor.end;
    }
    if (end != data_bytes)
        throw Error("has " + std::to_string(data_bytes - end) + " trailing bytes after its last tensor");
}

Layout layout_of(const StoredTensors& tensors, std::size_t data_bytes)
{
    Layout layout;
    for (const auto& entry : tensors)
        layout.push_back(&entry);
    std::ranges::sort(layout, {}, [](const auto* entry) { return std::tuple(entry->second.begin, entry->second.end); });
    expect_exact_cover(layout, data_bytes);
    return layout;
}

void expect_few_elements(const Layout& layout, std::size_t most)
{
    std::size_t left = most;
    for (const auto* entry : layout) {
        const std::size_t count = element_count(entry->second.shape);
        if (count > left)
            throw Error(tensor_called(entry->first) + " has the shape " + to_string(entry->second.shape) +
                        ", more than the " + std::to_string(left) + " elements that are still accepted");
        left -= count;
    }
}

NamedArrays read_arrays(Reader& file, const NpzLimits& limits, const NameFilter& is_wanted)
{
    const std::string header = read_header(file);
    const StoredTensors tensors = parse_safetensors_header(header);
    const std::size_t data = length_bytes + header.size();
    Layout layout = layout_of(tensors, file.size() - data);
    std::erase_if(layout, [&](const auto* entry) { return !is_wanted(entry->first); });
    expect_few_elements(layout, limits.elements);

    NamedArrays arrays;
    const ByteSource source = [&](std::span<char> buffer) { return file(buffer); };
    for (const auto* entry : layout)
        arrays[entry->first] = about_tensor(entry->first, [&, &tensor = entry->second] {
            file.seek(data + tensor.begin);
            return Array{tensor.shape, read_elements(source, *tensor.format, element_count(tensor.shape), Count::known),
                         tensor.format->type};
        });
    return arrays;
}

// ------------------------------------------------------------------------------------------------ writing

/// The length and the header, padded with blanks to where the data can begin.
std::string encode_header(const StoredTensors& tensors)
{
    std::string text = to_text(tensors);
    text.append((alignment - text.size() % alignment) % alignment, ' ');
    if (text.size() > longest_safetensors_header)
        throw Error("its header would have " + std::to_string(text.size()) + " bytes, more than the " +
                    std::to_string(longest_safetensors_header) + " of a .safetensors file; write fewer tensors");
    std::string bytes;
    append_little_endian(bytes, std::uint64_t{text.size()});
    return bytes + text;
}

std::string encode(const NamedArrays& arrays)
{
    StoredTensors tensors;
    std::string data;
    for (const auto& [name, array] : arrays) {
        const EncodedElements elements = about_tensor(name, [&, &values = array] { return encode_elements(values); });
        tensors[name] = {&elements.format, array.shape, data.size(), data.size() + elements.bytes.size()};
        data += elements.bytes;
    }
    return encode_header(tensors) + data;
}

} // namespace

NamedArrays read_safetensors(const fs::path& path, const NpzLimits& limits, const NameFilter& is_wanted)
{
    Reader file(path);
    return about_file(path, "", [&] { return read_arrays(file, limits, is_wanted); });
}

void write_safetensors(const fs::path& path, const NamedArrays& arrays)
{
    write_file(path, about_file(path, "cannot be written: ", [&] { return encode(arrays); }));
}

} // namespace attn::files
