// Reads the .npz files that the lab carries, whose members are stored as they are: script/lab writes them so.

#include "attn/files/file.hpp"
#include "zip.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>

struct zip {
    std::string bytes;
    std::vector<std::string_view> members;
};

namespace attn::files {
namespace {

/// A little-endian number of that many bytes. The fields are those of PKWARE's APPNOTE 4.3.
std::size_t number_at(std::string_view bytes, std::size_t at, std::size_t size)
{
    if (at + size > bytes.size())
        throw Error("is no whole zip archive");
    std::size_t number = 0;
    for (std::size_t i = size; i-- > 0;)
        number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
    return number;
}

std::string_view part(std::string_view bytes, std::size_t at, std::size_t size)
{
    if (at > bytes.size() || size > bytes.size() - at)
        throw Error("is no whole zip archive");
    return bytes.substr(at, size);
}

} // namespace

ZipReader::ZipReader(const std::filesystem::path& path)
{
    std::ifstream file = open_file(path, "an .npz file");
    archive_ = std::make_shared<::zip>();
    archive_->bytes.assign(std::istreambuf_iterator<char>(file), {});
    const std::string_view bytes = archive_->bytes;
    const std::size_t end = bytes.rfind("PK\x05\x06");
    const std::size_t count = end == bytes.npos ? 0 : number_at(bytes, end + 10, 2);
    std::size_t entry = end == bytes.npos ? 0 : number_at(bytes, end + 16, 4);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t name_size = number_at(bytes, entry + 28, 2), local = number_at(bytes, entry + 42, 4);
        if (number_at(bytes, entry + 10, 2) != 0)
            throw FileError(path, "is compressed, and the page can read what is stored only");
        names_.emplace_back(part(bytes, entry + 46, name_size));
        const std::size_t content = local + 30 + number_at(bytes, local + 26, 2) + number_at(bytes, local + 28, 2);
        archive_->members.push_back(part(bytes, content, number_at(bytes, entry + 24, 4)));
        entry += 46 + name_size + number_at(bytes, entry + 30, 2) + number_at(bytes, entry + 32, 2);
    }
}

std::string ZipReader::comment() const { return ""; }

ByteSource ZipReader::open(std::size_t index) const
{
    return [archive = archive_, rest = archive_->members.at(index)](std::span<char> buffer) mutable {
        const std::size_t size = std::min(buffer.size(), rest.size());
        std::ranges::copy(rest.substr(0, size), buffer.begin());
        rest.remove_prefix(size);
        return size;
    };
}

ZipWriter::Place ZipWriter::add(std::string_view, std::string_view) { throw Error("a page writes no archives"); }

void ZipWriter::finish(std::string_view, std::size_t) { throw Error("a page writes no archives"); }

} // namespace attn::files
