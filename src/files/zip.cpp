#include "zip.hpp"

#include "attn/files/file.hpp"
#include "elements.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <limits>
#include <span>

#include <zip.h>
#include <zlib.h>

namespace attn::files {
namespace {

namespace fs = std::filesystem;

// The earliest day that a zip can hold, 1980-01-01, as DOS counts.
constexpr std::uint16_t no_time = 0;
constexpr std::uint16_t no_date = (1 << 5) | 1;
constexpr std::size_t longest_text = 65535; // of a name or a note: their lengths have 16 bits
constexpr std::uint32_t ordinary_file = 0100644u << 16;

std::string text_of(zip_error_t* error)
{
    std::string text = zip_error_strerror(error);
    zip_error_fini(error);
    return text;
}

/// Fills the buffer as far as the member reaches.
std::size_t read_from(zip_file_t* file, std::span<char> buffer)
{
    std::size_t done = 0;
    while (done < buffer.size()) {
        const zip_int64_t found = zip_fread(file, buffer.data() + done, buffer.size() - done);
        if (found < 0)
            throw Error(std::string("is damaged: ") + zip_file_strerror(file));
        if (found == 0)
            break;
        done += static_cast<std::size_t>(found);
    }
    return done;
}

/// The archive's last record says how long its note is, and the file ends with it. libzip 1.7 sees to this, 1.12 takes an
/// archive whose note was cut.
void expect_whole_end(const fs::path& path, std::size_t comment_size)
{
    constexpr std::size_t record_size = 22, length_offset = 20;
    std::ifstream file = open_file(path, "an .npz file");
    std::array<char, record_size> record{};
    file.seekg(-static_cast<std::streamoff>(record_size + comment_size), std::ios::end);
    file.read(record.data(), record.size());
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(record[at]); };
    const std::size_t stated_size = byte(length_offset) + std::size_t{256} * byte(length_offset + 1);
    if (!file || std::string_view(record.data(), 4) != "PK\x05\x06" || stated_size != comment_size)
        throw FileError(path,
                        "is not a whole .npz (zip) file: its end is missing; write it again, with numpy.savez or attn");
}

/// Refuses kilobytes that fill the memory: zeros can be packed to a thousandth, and what was computed to about a half.
void expect_no_bomb(const fs::path& path, std::uint64_t unpacked)
{
    constexpr std::uint64_t much = std::uint64_t{1} << 30, times = 100;
    if (unpacked > much && unpacked / times > fs::file_size(path))
        throw FileError(path, "would unpack to " + std::to_string(unpacked >> 20) + " MiB, more than " +
                                  std::to_string(times) + " times its size; numpy.savez writes it unpacked");
}

} // namespace

namespace {

constexpr std::uint32_t in_long = 0xFFFFFFFF; ///< a number of 32 bits that stands in 64 elsewhere
constexpr std::uint16_t of_unix = 3 << 8 | 63;

bool is_long(std::size_t number) { return number >= in_long; }
std::uint32_t shortened(std::size_t number)
{
    return static_cast<std::uint32_t>(std::min<std::size_t>(number, in_long));
}

/// One number after the other, each in as many bytes as its type has.
template <class... Numbers>
std::string record(Numbers... numbers)
{
    std::string bytes;
    (append_little_endian(bytes, numbers), ...);
    return bytes;
}

/// The numbers of a member that need more than 32 bits, in the order that the format has for them.
std::string long_numbers(std::initializer_list<std::size_t> numbers)
{
    std::string bytes;
    for (const std::size_t number : numbers)
        if (is_long(number))
            append_little_endian(bytes, std::uint64_t{number});
    return bytes.empty() ? bytes : record(std::uint16_t{1}, static_cast<std::uint16_t>(bytes.size())) + bytes;
}

} // namespace

/// What the header of a member and its entry in the directory have in common.
std::string ZipWriter::common_part(const Member& member, const std::string& more)
{
    const std::uint16_t version = more.empty() ? 10 : 45, flags = 0, stored = 0;
    return record(version, flags, stored, no_time, no_date, member.checksum, shortened(member.size),
                  shortened(member.size), static_cast<std::uint16_t>(member.name.size()),
                  static_cast<std::uint16_t>(more.size()));
}

void ZipWriter::put(std::string_view bytes)
{
    write_(bytes);
    size_ += bytes.size();
}

ZipWriter::Place ZipWriter::add(std::string_view name, std::string_view bytes)
{
    if (name.size() > longest_text)
        throw Error("the zip archive cannot be made: a name has " + std::to_string(name.size()) + " bytes");
    const auto* data = reinterpret_cast<const Bytef*>(bytes.data());
    const Member& member = members_.emplace_back(
        Member{std::string(name), size_, bytes.size(), static_cast<std::uint32_t>(crc32_z(0, data, bytes.size()))});
    const std::string more = long_numbers({member.size, member.size});
    put("PK\3\4" + common_part(member, more) + member.name + more);
    put(bytes);
    return {size_ - bytes.size(), bytes.size()};
}

void ZipWriter::finish(std::string_view comment, std::size_t leading)
{
    if (comment.size() > longest_text)
        throw Error("the zip archive cannot be made: its note has " + std::to_string(comment.size()) + " bytes");
    std::ranges::rotate(members_, members_.end() - static_cast<std::ptrdiff_t>(leading));
    const std::size_t begin = size_, count = members_.size();
    for (const Member& member : members_) {
        const std::string more = long_numbers({member.size, member.size, member.header});
        const std::uint16_t no_note = 0, disk = 0, kind = 0;
        put("PK\1\2" + record(of_unix) + common_part(member, more) +
            record(no_note, disk, kind, ordinary_file, shortened(member.header)) + member.name + more);
    }
    const std::size_t end = size_;
    const bool is_many = count >= 0xFFFF;
    const std::uint32_t first_disk = 0, one_disk = 1;
    if (is_many || is_long(begin) || is_long(end - begin))
        put("PK\6\6" +
            record(std::uint64_t{44}, of_unix, std::uint16_t{45}, first_disk, first_disk, std::uint64_t{count},
                   std::uint64_t{count}, std::uint64_t{end - begin}, std::uint64_t{begin}) +
            "PK\6\7" + record(first_disk, std::uint64_t{end}, one_disk));
    const std::uint16_t disk = 0, members = is_many ? 0xFFFF : static_cast<std::uint16_t>(count);
    put("PK\5\6" +
        record(disk, disk, members, members, shortened(end - begin), shortened(begin),
               static_cast<std::uint16_t>(comment.size())) +
        std::string(comment));
}

ZipReader::ZipReader(const fs::path& path)
{
    expect_regular_file(path, "an .npz file");
    if (fs::file_size(path) == 0) // libzip would call it an archive without members
        throw FileError(path, "is empty, expected an .npz file");
    int code = 0;
    archive_.reset(zip_open(path.c_str(), ZIP_RDONLY, &code), [](zip_t* archive) {
        if (archive != nullptr)
            zip_discard(archive);
    });
    if (!archive_) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        const bool is_of_system = code == ZIP_ER_OPEN || code == ZIP_ER_READ || code == ZIP_ER_MEMORY;
        const std::string why = text_of(&error);
        throw FileError(path, is_of_system ? "cannot be read: " + why
                                           : "is not a whole .npz (zip) file: " + why +
                                                 "; write it again, with numpy.savez or attn");
    }

    expect_whole_end(path, comment().size());
    const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
    zip_uint64_t unpacked = 0;
    for (zip_int64_t index = 0; index < count; ++index) {
        const char* name = zip_get_name(archive_.get(), static_cast<zip_uint64_t>(index), ZIP_FL_ENC_RAW);
        names_.emplace_back(name == nullptr ? "" : name);
        zip_stat_t status;
        if (zip_stat_index(archive_.get(), static_cast<zip_uint64_t>(index), 0, &status) == 0 &&
            (status.valid & ZIP_STAT_SIZE) != 0)
            unpacked += std::min(status.size, std::numeric_limits<zip_uint64_t>::max() - unpacked);
    }
    expect_no_bomb(path, unpacked);
}

std::string ZipReader::comment() const
{
    int length = 0;
    const char* comment = zip_get_archive_comment(archive_.get(), &length, ZIP_FL_ENC_RAW);
    return comment == nullptr ? "" : std::string(comment, static_cast<std::size_t>(length));
}

ByteSource ZipReader::open(std::size_t index) const
{
    zip_file_t* opened = zip_fopen_index(archive_.get(), index, 0);
    if (opened == nullptr)
        throw Error(std::string("cannot be read: ") + zip_strerror(archive_.get()));
    const std::shared_ptr<zip_file_t> file(opened, zip_fclose);
    zip_stat_t status;
    if (zip_stat_index(archive_.get(), index, 0, &status) < 0 || (status.valid & ZIP_STAT_SIZE) == 0)
        throw Error("is damaged: the archive does not say how long it is");

    return [file, size = status.size, total = zip_uint64_t{0}](std::span<char> buffer) mutable {
        const std::size_t found = read_from(file.get(), buffer);
        total += found;
        // At the end libzip has compared the checksum; the size of what was deflated it leaves to us.
        if (total > size || (found < buffer.size() && total != size))
            throw Error("is damaged: it has " + std::to_string(total) + " bytes, the archive says " +
                        std::to_string(size));
        return found;
    };
}

} // namespace attn::files
