#include "attn/files/output.hpp"

#include "attn/core/error.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace attn::files {
namespace {

int first_error = 0; // why the first text was not written

void note(bool is_written)
{
    if (!is_written && first_error == 0)
        first_error = errno;
}

} // namespace

void prepare_streams()
{
    std::signal(SIGXFSZ, SIG_IGN);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
            ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY); // the lowest number that is free
}

void write_output(std::string_view text)
{
    errno = 0;
    note(std::fwrite(text.data(), 1, text.size(), stdout) == text.size());
}

void expect_delivered()
{
    errno = 0;
    note(std::fflush(stdout) == 0);
    if (std::ferror(stdout) == 0 && first_error == 0) // some file systems say only now that the disk is full
        if (const int copy = ::dup(STDOUT_FILENO); copy >= 0)
            note(::close(copy) == 0);
    if (std::ferror(stdout) != 0 || first_error != 0)
        throw Error("standard output can't be written" +
                    (first_error == 0 ? "" : ": " + std::generic_category().message(first_error)));
}

} // namespace attn::files
