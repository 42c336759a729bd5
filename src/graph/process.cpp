#include "process.hpp"

#include "attn/error.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <system_error>
#include <thread>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace attn {
namespace {

/// A file without a name, which is gone when it is closed. Files in place of pipes: neither side waits for the other.
class NamelessFile {
public:
    NamelessFile() : file_(std::tmpfile(), std::fclose)
    {
        if (file_ == nullptr)
            throw Error("no temporary file can be made: " + std::generic_category().message(errno));
    }

    int descriptor() const { return ::fileno(file_.get()); }

    void write(std::string_view text)
    {
        if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() || std::fflush(file_.get()) != 0)
            throw Error("a temporary file cannot be written: " + std::generic_category().message(errno));
        std::rewind(file_.get());
    }

    std::string read()
    {
        std::string text;
        std::rewind(file_.get());
        char piece[1 << 14];
        while (const std::size_t count = std::fread(piece, 1, sizeof piece, file_.get()))
            text.append(piece, count);
        return text;
    }

private:
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

/// Waits until a process has ended, or ends it.
/// @return its status, and whether it ended by itself
std::pair<int, bool> ended(pid_t process, std::chrono::milliseconds longest)
{
    const auto last = std::chrono::steady_clock::now() + longest;
    int status = 0;
    while (true) {
        const pid_t found = ::waitpid(process, &status, WNOHANG);
        if (found == process)
            return {status, true};
        if (found < 0 && errno != EINTR)
            throw Error("a process was lost: " + std::generic_category().message(errno));
        if (std::chrono::steady_clock::now() > last)
            break;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ::kill(process, SIGKILL);
    while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    return {status, false};
}

} // namespace

ProcessResult run_process(std::vector<std::string> words, std::string_view input, std::chrono::milliseconds longest)
{
    NamelessFile given, output, errors;
    given.write(input);
    posix_spawn_file_actions_t streams;
    posix_spawn_file_actions_init(&streams);
    posix_spawn_file_actions_adddup2(&streams, given.descriptor(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&streams, output.descriptor(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&streams, errors.descriptor(), STDERR_FILENO);
    std::vector<char*> arguments;
    for (std::string& word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t process = 0;
    const int failure = ::posix_spawnp(&process, words[0].c_str(), &streams, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&streams);
    if (failure == ENOENT || failure == EACCES || failure == ENOTDIR)
        return {ProcessResult::End::not_found, 0, "", ""};
    if (failure != 0)
        throw Error(words[0] + " can't be started: " + std::generic_category().message(failure));

    const auto [status, is_by_itself] = ended(process, longest);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {is_by_itself ? ProcessResult::End::exited : ProcessResult::End::too_slow, code, output.read(),
            errors.read()};
}

} // namespace attn
