#include "attn/files/file.hpp"

#include "temporary_folder.hpp"
#include "test.hpp"

#include <algorithm>
#include <csignal>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace attn;
using namespace attn::files;
namespace fs = std::filesystem;

TEST_CASE("a written file holds the bytes and nothing else appears beside it", "[trace_io][file]")
{
    const TemporaryFolder folder;
    const std::string bytes("a\0b\n", 4);
    write_file(folder / "out", bytes);
    CHECK(bytes_of(folder / "out") == bytes);
    write_file(folder / "out", "second");
    CHECK(bytes_of(folder / "out") == "second");
    CHECK(folder.count() == 1);
}

TEST_CASE("a name without a folder is written into the working folder", "[trace_io][file]")
{
    const TemporaryFolder folder;
    const fs::path before = fs::current_path();
    fs::current_path(folder.path());
    write_file("bare", "x");
    fs::current_path(before);
    CHECK(bytes_of(folder / "bare") == "x");
}

TEST_CASE("a file that cannot be written is a FileError that names it, and leaves nothing", "[trace_io][file]")
{
    const TemporaryFolder folder;
    put_bytes(folder / "file", "old");
    fs::create_directory(folder / "folder");
    for (const fs::path& target : {folder / "missing" / "out", folder / "folder", folder / "file" / "out", folder / "",
                                   fs::path(""), folder / std::string(300, 'x'), fs::path("/proc/out")}) {
        CAPTURE(target);
        CHECK_THROWS_AS(write_file(target, "new"), FileError);
        CHECK(folder.count() == 2);
        CHECK(fs::is_empty(folder / "folder"));
        CHECK(bytes_of(folder / "file") == "old");
    }
    CHECK_THROWS_WITH(write_file(folder / "folder", "new"), ContainsSubstring((folder / "folder").string()));
}

TEST_CASE("a full disk is an error", "[trace_io][file]")
{
    if (!fs::is_character_file("/dev/full"))
        return;
    CHECK_THROWS_WITH(write_file("/dev/full", "x"), ContainsSubstring("No space left"));
    CHECK(fs::is_character_file("/dev/full"));
}

TEST_CASE("a device is written into, not replaced", "[trace_io][file]")
{
    write_file("/dev/null", "x");
    CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("writing to a link replaces the file that it points to, and the link remains", "[trace_io][file]")
{
    const TemporaryFolder folder;
    fs::create_directory(folder / "far");
    put_bytes(folder / "far" / "real", "old");
    fs::create_symlink("far/real", folder / "link");
    fs::create_symlink("far/not_yet", folder / "dangling");
    write_file(folder / "link", "new");
    write_file(folder / "dangling", "new");
    CHECK(fs::is_symlink(folder / "link"));
    CHECK(bytes_of(folder / "far" / "real") == "new");
    CHECK(fs::is_symlink(folder / "dangling"));
    CHECK(bytes_of(folder / "far" / "not_yet") == "new");
}

TEST_CASE("links in a circle are an error", "[trace_io][file]")
{
    const TemporaryFolder folder;
    fs::create_symlink("b", folder / "a");
    fs::create_symlink("a", folder / "b");
    CHECK_THROWS_AS(write_file(folder / "a", "x"), FileError);
    CHECK(folder.count() == 2);
}

TEST_CASE("a new file follows the umask and a replaced one keeps its permissions", "[trace_io][file]")
{
    const TemporaryFolder folder;
    const mode_t before = ::umask(027);
    write_file(folder / "new", "x");
    ::umask(before);
    CHECK(fs::status(folder / "new").permissions() == fs::perms(0640));

    put_bytes(folder / "old", "old");
    fs::permissions(folder / "old", fs::perms(0604));
    write_file(folder / "old", "new");
    CHECK(fs::status(folder / "old").permissions() == fs::perms(0604));
}

TEST_CASE("a FileError is one printable line of bounded length", "[trace_io][file]")
{
    const std::string line = FileError("a\nb", "found \x1b[31m" + std::string(5000, 'x')).what();
    CHECK(line.size() < 1000);
    CHECK(std::ranges::none_of(line, [](unsigned char c) { return c < 0x20; }));
    CHECK(line.starts_with("a\\nb: found \\x1B[31mx"));
}

namespace {

/// What a child ends with that writes a file, as soon as a signal has come.
/// @param folder  of the file; null bytes are written until the signal comes
int status_of_interrupted(const TemporaryFolder& folder, int signal)
{
    const std::string bytes(std::size_t{64} << 20, '\0');
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        std::signal(signal, SIG_DFL);
        [[maybe_unused]] const ssize_t written = ::write(ready[1], "x", 1);
        while (true)
            write_file(folder / "out", bytes);
    }
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    for (const int end : ready)
        ::close(end);
    ::usleep(20'000);
    ::kill(child, signal);
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return status;
}

} // namespace

TEST_CASE("a signal while a file is written ends the program as always, and leaves no other file",
          "[trace_io][file][signals]")
{
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGKILL}) {
        CAPTURE(signal);
        const TemporaryFolder folder;
        const int status = status_of_interrupted(folder, signal);
        REQUIRE(WIFSIGNALED(status));
        CHECK(WTERMSIG(status) == signal);
        CHECK(folder.count() == (fs::exists(folder / "out") ? 1u : 0u));
    }
}

TEST_CASE("a signal that the program handles or ignores stays its own while a file is written",
          "[trace_io][file][signals]")
{
    static volatile std::sig_atomic_t handled;
    handled = 0;
    const TemporaryFolder folder;
    const auto before = std::signal(SIGUSR1, [](int) { handled = handled + 1; });
    const auto hang_up = std::signal(SIGHUP, SIG_IGN);
    write_file(folder / "out", "x");
    std::raise(SIGUSR1);
    std::raise(SIGHUP);
    CHECK(handled == 1);
    CHECK(std::signal(SIGHUP, hang_up) == SIG_IGN);
    std::signal(SIGUSR1, before);
}

TEST_CASE("a file beyond the limit on its size is an error, without a word about signals", "[trace_io][file][signals]")
{
    const TemporaryFolder folder;
    put_bytes(folder / "out", "old");
    const pid_t child = ::fork();
    if (child == 0) {
        std::signal(SIGXFSZ, SIG_DFL);
        const rlimit limit{10, 10};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        try {
            write_file(folder / "out", std::string(100, 'x'));
        } catch (const FileError& error) {
            ::_exit(std::string(error.what()).find("File too large") != std::string::npos ? 0 : 1);
        }
        ::_exit(2);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(bytes_of(folder / "out") == "old");
    CHECK(folder.count() == 1);
}

TEST_CASE("with too many open files, that is what a reader says", "[trace_io][file][limits]")
{
    const TemporaryFolder folder;
    put_bytes(folder / "in", "x");
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const rlimit none{3, limit.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
    std::string message;
    try {
        open_file(folder / "in", "a file");
    } catch (const FileError& error) {
        message = error.what();
    }
    ::setrlimit(RLIMIT_NOFILE, &limit);
    CHECK_THAT(message, ContainsSubstring("cannot be read: Too many open files"));
}
