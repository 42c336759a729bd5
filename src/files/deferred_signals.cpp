#include "attn/files/deferred_signals.hpp"

#include <atomic>

#include <array>
#include <csignal>
#include <mutex>

namespace attn::files {
namespace {

// Those that end a program, and that something else than the program itself sends.
constexpr std::array signals{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ};

std::mutex counting;
int writers = 0; // in all threads
std::array<bool, signals.size()> is_deferred{};

std::atomic<int> noted = 0; // the first signal; a handler reaches nothing else
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal)
{
    int none = 0;
    if (signal != SIGXFSZ)
        noted.compare_exchange_strong(none, signal);
}

bool has_default_action(int signal)
{
    struct sigaction action = {};
    return ::sigaction(signal, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
           action.sa_handler == SIG_DFL;
}

} // namespace

DeferredSignals::DeferredSignals()
{
    const std::lock_guard lock(counting);
    if (writers++ > 0)
        return;
    struct sigaction noting = {};
    noting.sa_handler = note;
    for (std::size_t i = 0; i < signals.size(); ++i)
        is_deferred[i] = has_default_action(signals[i]) && ::sigaction(signals[i], &noting, nullptr) == 0;
}

DeferredSignals::~DeferredSignals()
{
    const std::lock_guard lock(counting);
    if (--writers > 0)
        return;
    for (std::size_t i = 0; i < signals.size(); ++i)
        if (is_deferred[i])
            std::signal(signals[i], SIG_DFL);
    if (const int signal = noted.exchange(0))
        std::raise(signal);
}

bool DeferredSignals::is_interrupted() { return noted != 0; }

} // namespace attn::files
