#include "program.hpp"

#include "temporary_folder.hpp"

#include <algorithm>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

std::vector<char*> pointers(std::vector<std::string>& words)
{
    std::vector<char*> result;
    for (std::string& word : words)
        result.push_back(word.data());
    result.push_back(nullptr);
    return result;
}

} // namespace

Ended run(const std::vector<std::string>& words, const std::vector<std::string>& environment)
{
    const TemporaryFolder folder;
    const std::string output = folder / "output", errors = folder / "errors";
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT, 0600);

    std::vector<std::string> arguments = words;
    if (!words[0].starts_with('/'))
        arguments[0] = std::string(ATTN_BIN_FOLDER) + "/" + words[0];
    std::vector<std::string> variables = environment;
    for (char** variable = environ; *variable != nullptr; ++variable)
        variables.emplace_back(*variable);

    pid_t child = 0;
    const int failure = posix_spawn(&child, arguments[0].c_str(), &files, nullptr, pointers(arguments).data(),
                                    pointers(variables).data());
    posix_spawn_file_actions_destroy(&files);
    if (failure != 0)
        throw std::runtime_error(arguments[0] + " can't be started");
    int status = 0;
    waitpid(child, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, bytes_of(output), bytes_of(errors)};
}

std::size_t lines_in(const std::string& text) { return static_cast<std::size_t>(std::ranges::count(text, '\n')); }
