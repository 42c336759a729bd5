#include "attn/trace_io/file.hpp"

#include "attn/utf8.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace attn {
namespace {

namespace fs = std::filesystem;

std::string reason(int error) { return std::generic_category().message(error); }

FileError cannot_write(const fs::path& path, const std::string& why)
{
    return FileError(path, "cannot be written: " + why);
}

/// An open file that is closed in the end.
class Descriptor {
public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor()
    {
        if (number_ >= 0)
            ::close(number_);
    }

    int number() const { return number_; }

    /// Some file systems say only now that the disk is full.
    bool close() { return ::close(std::exchange(number_, -1)) == 0; }

private:
    int number_;
};

/// Writes all bytes and closes the file.
/// @return the error, or 0
int write_all(Descriptor& file, std::string_view bytes)
{
    while (!bytes.empty()) {
        const ssize_t written = ::write(file.number(), bytes.data(), bytes.size());
        if (written < 0 && errno != EINTR)
            return errno;
        bytes.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
    }
    return file.close() ? 0 : errno;
}

/// The name of a new file in that folder, opened; removed in the end unless it was given another name.
class TemporaryFile {
public:
    explicit TemporaryFile(const fs::path& folder) : descriptor_(create(folder)) {}
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile()
    {
        if (!path_.empty())
            ::unlink(path_.c_str());
    }

    /// Why there is none, or 0.
    int error() const { return error_; }

    Descriptor& descriptor() { return descriptor_; }

    /// @return the error, or 0
    int rename_to(const fs::path& target)
    {
        if (::rename(path_.c_str(), target.c_str()) != 0)
            return errno;
        path_.clear();
        return 0;
    }

private:
    // mkstemp would make a file that only its owner may read; this one follows the umask as any other.
    int create(const fs::path& folder)
    {
        for (int attempt = 0;; ++attempt) {
            const fs::path path =
                folder / (".attn-" + std::to_string(::getpid()) + "-" + std::to_string(attempt) + ".tmp");
            const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
            if (descriptor >= 0)
                path_ = path;
            else if (errno == EEXIST)
                continue;
            else
                error_ = errno;
            return descriptor;
        }
    }

    fs::path path_; // empty where there is nothing to remove
    int error_ = 0;
    Descriptor descriptor_;
};

/// The file that a chain of links ends at, whether or not it exists.
fs::path behind_links(const fs::path& path)
{
    constexpr int longest_chain = 40;
    fs::path target = path;
    std::error_code error;
    for (int link = 0; fs::is_symlink(fs::symlink_status(target, error)); ++link) {
        if (link == longest_chain)
            throw cannot_write(path, reason(ELOOP));
        target = target.parent_path() / fs::read_symlink(target, error);
        if (error)
            throw cannot_write(path, error.message());
    }
    return target;
}

void write_into_device(const fs::path& path, std::string_view bytes)
{
    Descriptor device(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (device.number() < 0)
        throw cannot_write(path, reason(errno));
    if (const int error = write_all(device, bytes))
        throw cannot_write(path, reason(error));
}

void replace_file(const fs::path& path, const fs::path& target, std::string_view bytes)
{
    struct stat old = {};
    const bool exists = ::stat(target.c_str(), &old) == 0;
    if (exists && ::access(target.c_str(), W_OK) != 0)
        throw cannot_write(path, reason(errno));

    TemporaryFile temporary(target.has_parent_path() ? target.parent_path() : fs::path("."));
    if (const int error = temporary.error())
        throw cannot_write(path, reason(error) + "; does its folder exist, and may you write there?");
    if (exists && ::fchmod(temporary.descriptor().number(), old.st_mode & 07777) != 0)
        throw cannot_write(path, reason(errno));
    if (const int error = write_all(temporary.descriptor(), bytes))
        throw cannot_write(path, reason(error));
    if (const int error = temporary.rename_to(target))
        throw cannot_write(path, reason(error));
}

} // namespace

std::string printable(std::string_view text, std::size_t longest)
{
    std::string line;
    for (std::size_t at = 0; at < text.size() && line.size() < longest;) {
        const std::size_t length = visible_length(text.substr(at));
        line += length == 0 ? "?" : text.substr(at, length);
        at += std::max<std::size_t>(length, 1);
    }
    return line.size() < longest ? line : line + "...";
}

FileError::FileError(fs::path path, std::string_view message)
    : Error(printable(path.string() + ": " + std::string(message))), path_(std::move(path))
{
}

void expect_regular_file(const fs::path& path, std::string_view kind)
{
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found)
        throw FileError(path, "cannot be read: there is no such file");
    if (!fs::exists(status))
        throw FileError(path, "cannot be read: " + error.message());
    if (fs::is_directory(status))
        throw FileError(path, "is a folder, expected " + std::string(kind));
    if (!fs::is_regular_file(status))
        throw FileError(path, "is a device or a pipe, expected " + std::string(kind) + " on disk");
}

void write_file(const fs::path& path, std::string_view bytes)
{
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (fs::is_directory(status))
        throw cannot_write(path, "it is a folder; name a file in it");
    if (!path.has_filename())
        throw cannot_write(path, "it does not name a file");
    if (fs::exists(status) && !fs::is_regular_file(status))
        return write_into_device(path, bytes);
    replace_file(path, behind_links(path), bytes);
}

} // namespace attn
