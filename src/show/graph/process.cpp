#include "attn/show/graph/process.hpp"

#include "attn/core/error.hpp"
#include "attn/files/deferred_signals.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace attn::show {
namespace {

/// A file without a name, which is gone when it is closed. Files in place of pipes: neither side waits for the other.
class NamelessFile {
public:
    NamelessFile() : file_(std::tmpfile(), std::fclose)
    {
        if (file_ == nullptr)
            throw Error("no temporary file can be made: ", std::generic_category().message(errno));
    }

    int descriptor() const { return ::fileno(file_.get()); }

    void write(std::string_view text)
    {
        if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() || std::fflush(file_.get()) != 0)
            throw Error("a temporary file cannot be written: ", std::generic_category().message(errno));
        std::rewind(file_.get());
    }

    /// What has been written so far. Where a program goes on writing is left as it is.
    std::string read() const
    {
        std::string text;
        char piece[1 << 14];
        ssize_t count = 0;
        while ((count = ::pread(descriptor(), piece, sizeof piece, static_cast<off_t>(text.size()))) > 0)
            text.append(piece, static_cast<std::size_t>(count));
        return text;
    }

private:
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

/// The standard streams of a program that is started, which leads a group of its own.
class Streams {
public:
    Streams(const NamelessFile& input, const NamelessFile& output, const NamelessFile& errors, ProcessOutput kind)
    {
        posix_spawnattr_init(&group_);
        posix_spawnattr_setflags(&group_, POSIX_SPAWN_SETPGROUP);
        posix_spawn_file_actions_init(&actions_);
        posix_spawn_file_actions_adddup2(&actions_, input.descriptor(), STDIN_FILENO);
        if (kind == ProcessOutput::shared)
            return;
        posix_spawn_file_actions_adddup2(&actions_, output.descriptor(), STDOUT_FILENO);
        posix_spawn_file_actions_adddup2(&actions_, errors.descriptor(), STDERR_FILENO);
    }
    ~Streams()
    {
        posix_spawn_file_actions_destroy(&actions_);
        posix_spawnattr_destroy(&group_);
    }
    Streams(const Streams&) = delete;
    Streams& operator=(const Streams&) = delete;

    const posix_spawn_file_actions_t* actions() const { return &actions_; }
    const posix_spawnattr_t* group() const { return &group_; }

private:
    posix_spawn_file_actions_t actions_{};
    posix_spawnattr_t group_{};
};

/// How a program ended, as its keeper reports it.
struct Ending {
    int failure = 0; ///< why it could not be started
    int status = 0;  ///< as waitpid() has it
};

/// What a process does that was made to keep a program: it starts the program, waits for it and reports its end. It kills
/// the program, and all that this one started, when the line is closed at the other end, which is so, too, when whoever made
/// it has ended, by any signal.
/// After fork() only what is allowed there.
[[noreturn]] void keep(int line, char* const* words, const Streams& streams)
{
    Ending ending;
    pid_t program = 0;
    ending.failure = ::posix_spawnp(&program, words[0], streams.actions(), streams.group(), words, environ);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) // sent to all of the group: there is still work to do
        std::signal(signal, SIG_IGN);
    pollfd other_end{line, POLLIN, 0};
    while (ending.failure == 0 && ::waitpid(program, &ending.status, WNOHANG) == 0) {
        if (::poll(&other_end, 1, 2) > 0) {
            ::kill(-program, SIGKILL);
            ::_exit(0);
        }
    }
    [[maybe_unused]] const ssize_t written = ::send(line, &ending, sizeof ending, MSG_NOSIGNAL);
    ::_exit(0);
}

/// Waits until there is something to read, or the other end is closed; in vain where its time is up, or this program is to
/// end.
bool is_readable(int descriptor, std::chrono::milliseconds longest)
{
    const auto last = std::chrono::steady_clock::now() + longest;
    pollfd polled{descriptor, POLLIN, 0};
    while (true) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(last - std::chrono::steady_clock::now()).count();
        if (::poll(&polled, 1, static_cast<int>(std::clamp<decltype(left)>(left, 0, 1000))) > 0)
            return true;
        if (left <= 0 || files::DeferredSignals::is_interrupted())
            return false;
    }
}

/// Runs a program until it ends, its time is up, or this one has ended.
/// @param too_slow  called where its time is up, while it still runs
/// @return its end, or nothing where its time was up
std::optional<Ending> run_kept(char* const* words, const Streams& streams, std::chrono::milliseconds longest,
                               const std::function<void()>& too_slow)
{
    const auto error = [&](const std::string& why) { return Error(std::string(words[0]) + " can't be run: " + why); };
    std::array<int, 2> line{};
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, line.data()) != 0)
        throw error(std::generic_category().message(errno));
    for (const int end : line)
        ::fcntl(end, F_SETFD, FD_CLOEXEC);
    const pid_t keeper = ::fork();
    if (keeper == 0) {
        ::close(line[0]);
        keep(line[1], words, streams);
    }
    const int failure = keeper < 0 ? errno : 0;
    ::close(line[1]);
    Ending ending;
    const bool has_ended = failure == 0 && is_readable(line[0], longest);
    if (failure == 0 && !has_ended)
        too_slow();
    const bool is_whole = has_ended && ::recv(line[0], &ending, sizeof ending, MSG_WAITALL) == sizeof ending;
    ::close(line[0]);
    if (failure != 0)
        throw error(std::generic_category().message(failure));
    while (::waitpid(keeper, nullptr, 0) < 0 && errno == EINTR) {
    }
    if (has_ended && !is_whole)
        throw error("the process that waits for it was ended");
    return has_ended ? std::optional(ending) : std::nullopt;
}

} // namespace

ProcessResult run_process(std::vector<std::string> words, std::string_view input, std::chrono::milliseconds longest,
                          const std::function<void(const std::string& errors)>& too_slow, ProcessOutput kind)
{
    NamelessFile given, output, errors;
    given.write(input);
    std::vector<char*> arguments;
    for (std::string& word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const std::optional<Ending> ending = run_kept(arguments.data(), Streams(given, output, errors, kind), longest, [&] {
        if (too_slow)
            too_slow(errors.read());
    });
    if (!ending)
        return {ProcessResult::End::too_slow, 128 + SIGKILL, output.read(), errors.read()};
    if (ending->failure == ENOENT || ending->failure == EACCES || ending->failure == ENOTDIR)
        return {ProcessResult::End::not_found, 0, "", ""};
    if (ending->failure != 0)
        throw Error(words[0], " can't be started: ", std::generic_category().message(ending->failure));
    const int code = WIFEXITED(ending->status) ? WEXITSTATUS(ending->status) : 128 + WTERMSIG(ending->status);
    return {ProcessResult::End::exited, code, output.read(), errors.read()};
}

} // namespace attn::show
