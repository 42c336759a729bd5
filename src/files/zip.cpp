#include "zip.hpp"

#include "attn/files/file.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <limits>
#include <span>

#include <zip.h>

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

[[noreturn]] void throw_error_of(zip_t* archive)
{
    throw Error(std::string("the zip archive cannot be made: ") + zip_strerror(archive));
}

using Source = std::unique_ptr<zip_source_t, void (*)(zip_source_t*)>;

Source source_over(const void* bytes, std::size_t size)
{
    zip_error_t error;
    zip_error_init(&error);
    Source source(zip_source_buffer_create(bytes, size, 0, &error), zip_source_free);
    if (!source)
        throw Error("the zip archive cannot be made: " + text_of(&error));
    zip_error_fini(&error);
    return source;
}

/// libzip borrows the member's bytes until the archive is closed.
void add(zip_t* archive, const ZipMember& member)
{
    // libzip 1.7 would write the length modulo 65536.
    if (member.name.size() > longest_text)
        throw Error("the zip archive cannot be made: a name has " + std::to_string(member.name.size()) + " bytes");
    Source source = source_over(member.bytes.data(), member.bytes.size());
    const zip_int64_t added = zip_file_add(archive, member.name.c_str(), source.get(), ZIP_FL_ENC_GUESS);
    if (added < 0)
        throw_error_of(archive);
    source.release();

    const auto index = static_cast<zip_uint64_t>(added);
    // The DOS time, not zip_file_set_mtime: that one goes through the local time zone.
    if (zip_set_file_compression(archive, index, ZIP_CM_STORE, 0) < 0 ||
        zip_file_set_dostime(archive, index, no_time, no_date, 0) < 0 ||
        zip_file_set_external_attributes(archive, index, 0, ZIP_OPSYS_UNIX, ordinary_file) < 0)
        throw_error_of(archive);
}

std::string content_of(zip_source_t* source)
{
    const auto failed = [&] { return Error("the zip archive cannot be made: " + text_of(zip_source_error(source))); };
    zip_stat_t status;
    if (zip_source_stat(source, &status) < 0 || zip_source_open(source) < 0)
        throw failed();
    std::string bytes(status.size, '\0');
    std::size_t done = 0;
    while (done < bytes.size()) {
        const zip_int64_t found = zip_source_read(source, bytes.data() + done, bytes.size() - done);
        if (found <= 0)
            throw failed();
        done += static_cast<std::size_t>(found);
    }
    zip_source_close(source);
    return bytes;
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

std::string zip_archive(const std::vector<ZipMember>& members, const std::string& comment)
{
    if (comment.size() > longest_text)
        throw Error("the zip archive cannot be made: its note has " + std::to_string(comment.size()) + " bytes");
    const Source target = source_over(nullptr, 0);
    zip_error_t error;
    zip_error_init(&error);
    std::unique_ptr<zip_t, void (*)(zip_t*)> archive(zip_open_from_source(target.get(), ZIP_TRUNCATE, &error),
                                                     zip_discard);
    if (!archive)
        throw Error("the zip archive cannot be made: " + text_of(&error));
    zip_error_fini(&error);
    zip_source_keep(target.get()); // the archive owns it too, until it is closed

    for (const ZipMember& member : members)
        add(archive.get(), member);
    if (zip_set_archive_comment(archive.get(), comment.data(), static_cast<zip_uint16_t>(comment.size())) < 0 ||
        zip_close(archive.get()) < 0)
        throw_error_of(archive.get());
    archive.release();
    return content_of(target.get());
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
