#include "attn/files/file.hpp"

#include "file_writer.hpp"

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

} // namespace

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

namespace {

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
        return Descriptor(::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, new_file));
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
        return take([](const char* path) { return ::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, new_file); });
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

bool is_about_folder(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES || error == EPERM || error == EROFS;
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

// ------------------------------------------------------------------------------------------- a file that is being written

struct FileWriter::File {
    fs::path path, target; ///< target: what is replaced; empty for a device
    fs::path folder;
    Descriptor bytes = Descriptor(-1);
    std::size_t size = 0;
};

namespace {

/// A file in that folder that has no name, or has lost it: nothing is left of it whatever ends the program.
Descriptor open_unseen(const fs::path& path, const fs::path& folder)
{
    Descriptor file = open_nameless(folder);
    if (file.number() >= 0)
        return file;
    const DeferredSignals deferred; // outlives the temporary name
    TemporaryName name(folder);
    file = Descriptor(name.create());
    if (const int error = errno; file.number() < 0)
        throw cannot_write(
            path, reason(error) + (is_about_folder(error) ? "; does its folder exist, and can you write there?" : ""));
    return file;
}

} // namespace

FileWriter::FileWriter(const fs::path& path) : file_(std::make_unique<File>())
{
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (fs::is_directory(status))
        throw cannot_write(path, "it is a folder; name a file in it");
    if (!path.has_filename())
        throw cannot_write(path, "it does not name a file");
    file_->path = path;
    if (fs::exists(status) && !fs::is_regular_file(status)) {
        file_->folder = fs::temp_directory_path(error);
    } else {
        file_->target = behind_links(path);
        file_->folder = file_->target.has_parent_path() ? file_->target.parent_path() : fs::path(".");
    }
    struct stat old = {};
    const bool is_replaced = !file_->target.empty() && ::stat(file_->target.c_str(), &old) == 0;
    if (is_replaced && ::access(file_->target.c_str(), W_OK) != 0)
        throw cannot_write(path, reason(errno));
    file_->bytes = open_unseen(path, file_->folder);
    if (is_replaced && ::fchmod(file_->bytes.number(), old.st_mode & 07777) != 0)
        throw cannot_write(path, reason(errno));
}

FileWriter::~FileWriter() = default;

void FileWriter::write(std::string_view bytes)
{
    const DeferredSignals deferred;
    if (const int error = write_all(file_->bytes, bytes))
        throw cannot_write(file_->path, reason(error));
    file_->size += bytes.size();
}

std::string FileWriter::written(std::size_t begin, std::size_t count) const
{
    std::string bytes(count, '\0');
    for (std::size_t done = 0; done < count;) {
        errno = 0;
        const ssize_t found =
            ::pread(file_->bytes.number(), bytes.data() + done, count - done, static_cast<off_t>(begin + done));
        if (found <= 0 && errno != EINTR)
            throw cannot_write(file_->path, "what was written can't be read again");
        done += found > 0 ? static_cast<std::size_t>(found) : 0;
    }
    return bytes;
}

/// Into a file that is seen, where the unseen one can't be given a name.
void FileWriter::copy_into(int number) const
{
    constexpr std::size_t at_once = std::size_t{1} << 20;
    const Descriptor seen(::dup(number));
    for (std::size_t begin = 0; begin < file_->size; begin += at_once)
        if (const int error = write_all(seen, written(begin, std::min(at_once, file_->size - begin))))
            throw cannot_write(file_->path, reason(error));
}

void FileWriter::commit()
{
    const DeferredSignals deferred; // outlives the temporary name
    const auto expect_closed = [&](Descriptor& file) {
        if (const int error = file.close())
            throw cannot_write(file_->path, reason(error));
    };
    if (file_->target.empty()) {
        Descriptor device(::open(file_->path.c_str(), O_WRONLY | O_CLOEXEC));
        if (device.number() < 0)
            throw cannot_write(file_->path, reason(errno));
        copy_into(device.number());
        return expect_closed(device);
    }
    TemporaryName name(file_->folder);
    if (!name.give_to(file_->bytes)) {
        Descriptor named(name.create());
        struct stat mode = {};
        if (named.number() < 0 || ::fstat(file_->bytes.number(), &mode) != 0 ||
            ::fchmod(named.number(), mode.st_mode & 07777) != 0)
            throw cannot_write(file_->path, reason(errno));
        copy_into(named.number());
        expect_closed(named);
    }
    expect_closed(file_->bytes);
    if (const int error = name.become(file_->target))
        throw cannot_write(file_->path, reason(error));
}

void write_file(const fs::path& path, std::string_view bytes)
{
    FileWriter file(path);
    file.write(bytes);
    file.commit();
}

} // namespace attn::files
