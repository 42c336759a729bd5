#include "attn/files/file.hpp"

#include "attn/files/deferred_signals.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace attn::files {
namespace {

namespace fs = std::filesystem;

std::string reason(int error) { return std::generic_category().message(error); }

FileError cannot_write(const fs::path& path, const std::string& why)
{
    return FileError(path, "cannot be written: " + why);
}

/// An open file that is closed in the end; none where its number is below 0.
class Descriptor {
public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept
    {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor()
    {
        if (number_ >= 0)
            ::close(number_);
    }

    int number() const { return number_; }

    /// Some file systems say only now that the disk is full.
    /// @return the error, or 0
    int close() { return ::close(std::exchange(number_, -1)) == 0 ? 0 : errno; }

private:
    int number_;
};

/// Writes all bytes; stops where the program is to end.
/// @return the error, or 0
int write_all(const Descriptor& file, std::string_view bytes)
{
    constexpr std::size_t most_at_once = std::size_t{1} << 20;
    while (!bytes.empty()) {
        const ssize_t written = ::write(file.number(), bytes.data(), std::min(bytes.size(), most_at_once));
        const int error = errno;
        if (DeferredSignals::is_interrupted())
            return EINTR;
        if (written < 0 && error != EINTR)
            return error;
        bytes.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
    }
    return 0;
}

// mkstemp would make a file that only its owner can read; a new file follows the umask like any other.
constexpr mode_t new_file = 0666;

/// A new file in that folder without a name: nothing is left of it whatever ends the program. Not all file systems know
/// such files, and a name is given through /proc.
Descriptor open_nameless(const fs::path& folder)
{
#ifdef O_TMPFILE
    if (::access("/proc/self/fd", X_OK) == 0)
        return Descriptor(::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, new_file));
#endif
    return Descriptor(-1);
}

/// The name of a file in that folder until it gets another; then, and in the end, there is no such name.
class TemporaryName {
public:
    explicit TemporaryName(fs::path folder) : folder_(std::move(folder)) {}
    TemporaryName(const TemporaryName&) = delete;
    TemporaryName& operator=(const TemporaryName&) = delete;
    ~TemporaryName()
    {
        if (is_taken())
            ::unlink(path_.c_str());
    }

    bool is_taken() const { return !path_.empty(); }

    /// @return a new file of that name, or -1 with errno
    int create()
    {
        return take([](const char* path) { return ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, new_file); });
    }

    /// Names a file that has none.
    bool give_to(const Descriptor& file)
    {
        const std::string open_file = "/proc/self/fd/" + std::to_string(file.number());
        return take([&](const char* path) {
                   return ::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, path, AT_SYMLINK_FOLLOW);
               }) == 0;
    }

    /// @return the error, or 0
    int become(const fs::path& target)
    {
        if (::rename(path_.c_str(), target.c_str()) != 0)
            return errno;
        path_.clear();
        return 0;
    }

private:
    /// The first name that nobody else has.
    template <class Make>
    int take(const Make& make)
    {
        for (int attempt = 0;; ++attempt) {
            const fs::path path =
                folder_ / (".attn-" + std::to_string(::getpid()) + "-" + std::to_string(attempt) + ".tmp");
            const int made = make(path.c_str());
            if (made >= 0)
                path_ = path;
            if (made >= 0 || errno != EEXIST)
                return made;
        }
    }

    fs::path folder_, path_; // the path is empty where there is nothing to remove
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
    if (const int error = device.close())
        throw cannot_write(path, reason(error));
}

bool is_about_folder(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES || error == EPERM || error == EROFS;
}

void replace_file(const fs::path& path, const fs::path& target, std::string_view bytes)
{
    struct stat old = {};
    const bool exists = ::stat(target.c_str(), &old) == 0;
    if (exists && ::access(target.c_str(), W_OK) != 0)
        throw cannot_write(path, reason(errno));

    const auto fill = [&](const Descriptor& file) {
        if (exists && ::fchmod(file.number(), old.st_mode & 07777) != 0)
            throw cannot_write(path, reason(errno));
        if (const int error = write_all(file, bytes))
            throw cannot_write(path, reason(error));
    };

    const DeferredSignals deferred; // outlives the temporary name
    const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
    TemporaryName name(folder);
    Descriptor file = open_nameless(folder);
    if (file.number() >= 0)
        fill(file);
    if (file.number() < 0 || !name.give_to(file)) {
        file = Descriptor(name.create());
        if (const int error = errno; file.number() < 0)
            throw cannot_write(path,
                               reason(error) +
                                   (is_about_folder(error) ? "; does its folder exist, and can you write there?" : ""));
        fill(file);
    }
    if (const int error = file.close())
        throw cannot_write(path, reason(error));
    if (const int error = name.become(target))
        throw cannot_write(path, reason(error));
}

} // namespace

FileError::FileError(fs::path path, std::string_view message)
    : Error(printable(path.string() + ": " + std::string(message))), path_(std::move(path))
{
}

void expect_regular_file(const fs::path& path, std::string_view kind)
{
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found)
        throw FileError(path, "cannot be read: there is no such file, expected " + std::string(kind));
    if (!fs::exists(status))
        throw FileError(path, "cannot be read: " + error.message());
    if (fs::is_directory(status))
        throw FileError(path, "is a folder, expected " + std::string(kind));
    if (!fs::is_regular_file(status))
        throw FileError(path, "is a device or a pipe, expected " + std::string(kind) + " on disk");
}

std::ifstream open_file(const fs::path& path, std::string_view kind)
{
    expect_regular_file(path, kind);
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file)
        throw FileError(path, "cannot be read" + (errno == 0 ? "" : ": " + reason(errno)));
    return file;
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

} // namespace attn::files
