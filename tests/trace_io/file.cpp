#include "attn/trace_io/file.hpp"

#include "temporary_folder.hpp"
#include "test.hpp"

#include <algorithm>
#include <csignal>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace attn;
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

TEST_CASE("a file that grows no further keeps what was there before", "[trace_io][file]")
{
    const TemporaryFolder folder;
    put_bytes(folder / "out", "old");

    // A limit on the size of files stands for the full disk; a child has it so that this program keeps its own.
    const pid_t child = ::fork();
    if (child == 0) {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{10, 10};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        try {
            write_file(folder / "out", std::string(100, 'x'));
            ::_exit(1);
        } catch (const FileError&) {
            ::_exit(0);
        }
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(bytes_of(folder / "out") == "old");
    CHECK(folder.count() == 1);
}

TEST_CASE("a device is written into, not replaced", "[trace_io][file]")
{
    write_file("/dev/null", "x");
    CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("a link stays a link and the file behind it is replaced", "[trace_io][file]")
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
    CHECK(line.starts_with("a?b: found ?[31mx"));
}
