#include "start.hpp"

#include "attn/files/output.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>

#include <alloca.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

namespace attn::cli {

void start_program() { files::prepare_streams(); }

namespace {

// guarded() says what went wrong, if there is memory to say it with. Where there is none for that, or for what comes before,
// this is what is left: it asks for none.

void say(std::string_view text)
{
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

[[noreturn]] void end_without_memory()
{
    say(program_invocation_short_name);
    say(": there is not enough memory; raise the limit on memory, such as that of ulimit -v\n");
    ::_exit(2);
}

std::terminate_handler end_otherwise = nullptr;

void end_program()
{
    try {
        if (const std::exception_ptr error = std::current_exception())
            std::rethrow_exception(error);
    } catch (const std::bad_alloc&) {
        end_without_memory();
    } catch (...) {
        end_otherwise();
    }
    end_otherwise();
}

// OpenBLAS starts a thread per processor as soon as it is loaded, before main(), and asks for 128 MiB for each until it gets
// them: under a limit on memory that is for ever. With one thread it asks for nothing before the first product, or, in later
// versions, once. It reads that number from the environment, so a program that is started under such a limit starts itself
// again with another environment: before any library has begun, as what stands in .preinit_array is. If the libraries
// still take a second of the processor's time, or end the program, there is too little for one thread, too.

constexpr rlim_t mebibyte = 1 << 20;
constexpr rlim_t needed_per_thread = 144 * mebibyte; // its stack, too
constexpr rlim_t needed_besides = 256 * mebibyte;
constexpr const char* one_thread = "OPENBLAS_NUM_THREADS=1";

bool is_memory_short()
{
    const auto threads = static_cast<rlim_t>(::sysconf(_SC_NPROCESSORS_ONLN));
    for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
        rlimit limit{};
        if (::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
            limit.rlim_cur < threads * needed_per_thread + needed_besides)
            return true;
    }
    return false;
}

/// Until the libraries have begun, which takes milliseconds.
void allow_seconds(time_t seconds)
{
    std::signal(SIGPROF, seconds > 0 ? [](int) { end_without_memory(); } : SIG_DFL);
    const itimerval once{{}, {seconds, 0}};
    ::setitimer(ITIMER_PROF, &once, nullptr);
}

/// Returns where it has one already.
void start_again_with_one_thread(char** words, char** environment)
{
    std::size_t count = 0;
    for (char** variable = environment; *variable != nullptr; ++variable, ++count)
        if (std::strcmp(*variable, one_thread) == 0)
            return;
    auto** changed = static_cast<char**>(alloca((count + 2) * sizeof(char*)));
    char** end = changed;
    *end++ = const_cast<char*>(one_thread); // execve() changes nothing
    for (char** variable = environment; *variable != nullptr; ++variable)
        if (std::strncmp(*variable, one_thread, std::strlen(one_thread) - 1) != 0)
            *end++ = *variable;
    *end = nullptr;
    if (::getauxval(AT_BASE) == 0) // the loader was called by its name, and has taken its own words away
        return;
    ::execve(reinterpret_cast<const char*>(::getauxval(AT_EXECFN)), words, changed);
    ::execve("/proc/self/exe", words, changed);
}

bool is_beginning = false; ///< under a limit on memory

/// Where a library has said why it can't begin.
void end_with_2()
{
    if (is_beginning)
        ::_exit(2);
}

[[maybe_unused]] void begin_before_libraries(int, char** words, char** environment)
{
    is_beginning = is_memory_short();
    if (is_beginning) {
        allow_seconds(1);
        std::atexit(end_with_2);
        start_again_with_one_thread(words, environment);
    }
}

// Instruments want to begin first, and take more memory than any such limit.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ATTN_IS_INSTRUMENTED
#endif
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(ATTN_IS_INSTRUMENTED)
using BeforeLibraries = void (*)(int, char**, char**);
[[gnu::section(".preinit_array"), gnu::used]] const BeforeLibraries before_libraries = begin_before_libraries;
#endif

/// Before any object of the program is made.
[[gnu::constructor(101)]] void begin_after_libraries()
{
    if (is_beginning)
        allow_seconds(0);
    is_beginning = false;
    end_otherwise = std::set_terminate(end_program);
}

} // namespace
} // namespace attn::cli
