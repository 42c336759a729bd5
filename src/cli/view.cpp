#include "commands.hpp"
#include "print.hpp"
#include "shared_flags.hpp"

#include "attn/budget.hpp"
#include "attn/error.hpp"
#include "attn/trace_io/file.hpp"
#include "attn/trace_io/trace_file.hpp"
#include "attn/view/server.hpp"
#include "attn/view/view.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

namespace attn {
namespace {

namespace fs = std::filesystem;

/// The values of a command line.
struct Request {
    fs::path trace, page, other, tokens, tokens_m;
    int port = 0;
    bool has_no_browser = false;
    std::optional<std::size_t> budget;
};

TokenLabels labels_of(const Request& request)
{
    TokenLabels labels;
    if (!request.tokens.empty())
        labels.n = read_tokens(request.tokens);
    if (!request.tokens_m.empty())
        labels.m = read_tokens(request.tokens_m);
    return labels;
}

/// The files by their names, or by their paths where those are the same.
std::vector<TitledTrace> traces_of(const Request& request)
{
    if (request.other.empty())
        return {{request.trace.filename().string(), request.trace}};
    const bool are_namesakes = request.other.filename() == request.trace.filename();
    const auto title = [&](const fs::path& path) { return (are_namesakes ? path : path.filename()).string(); };
    return {{title(request.trace), request.trace}, {title(request.other), request.other}};
}

// ------------------------------------------------------------------------------------------------ a page

int write_page(const Request& request)
{
    expect_not_replaced("-o", request.page, {request.trace, request.other, request.tokens, request.tokens_m});
    std::vector<TitledRecording> runs;
    for (const TitledTrace& trace : traces_of(request))
        runs.push_back({trace.title, read_trace(trace.path)});
    const std::size_t steps = runs[0].recording.steps.size();
    const std::string page =
        about_file(request.trace, "", [&] { return page_of(std::move(runs), labels_of(request)); });
    write_file(request.page, page);
    print("{}: {} steps, {:.1f} MiB; open it in a browser\n", request.page.string(), steps,
          static_cast<double>(page.size()) / (1 << 20));
    return 0;
}

// ------------------------------------------------------------------------------------------------ a server

/// Ctrl-C and SIGTERM, waited for.
class Interruption {
public:
    Interruption()
    {
        if (::pipe(pipe_) != 0)
            throw Error("no pipe can be opened: " + std::generic_category().message(errno));
        struct sigaction action = {};
        action.sa_handler = [](int) { notify(); };
        for (const int signal : {SIGINT, SIGTERM})
            ::sigaction(signal, &action, nullptr);
    }

    static void notify()
    {
        const char byte = 0;
        [[maybe_unused]] const ssize_t written = ::write(pipe_[1], &byte, 1);
    }

    void wait() const
    {
        char byte = 0;
        while (::read(pipe_[0], &byte, 1) < 0 && errno == EINTR) {
        }
    }

private:
    static inline int pipe_[2] = {-1, -1}; // a signal handler reaches nothing else
};

/// Opens the address in the desktop's browser, where there are both.
void open_browser(std::string address)
{
    if (std::getenv("DISPLAY") == nullptr && std::getenv("WAYLAND_DISPLAY") == nullptr)
        return;
    posix_spawn_file_actions_t silent;
    posix_spawn_file_actions_init(&silent);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
        posix_spawn_file_actions_addopen(&silent, stream, "/dev/null", O_WRONLY, 0);
    std::string program = "xdg-open";
    char* const words[] = {program.data(), address.data(), nullptr};
    pid_t process = 0;
    ::posix_spawnp(&process, program.c_str(), &silent, nullptr, words, environ);
    posix_spawn_file_actions_destroy(&silent);
}

int serve(const Request& request)
{
    ViewServer server =
        about_file(request.trace, "", [&] { return ViewServer(traces_of(request), labels_of(request), request.port); });
    const Interruption interruption;
    print("{}: {} steps at {}; Ctrl-C ends this\n", request.trace.string(), server.step_count(), server.address());
    expect_delivered(); // before there is a thread to end; who comes earlier than it waits
    std::thread answering([&] {
        server.run();
        Interruption::notify(); // should it end by itself
    });
    if (!request.has_no_browser)
        open_browser(server.address());
    interruption.wait();
    server.stop();
    answering.join();
    return 0;
}

} // namespace

Command view_command()
{
    const auto request = std::make_shared<Request>();
    const auto run = [request] {
        const BudgetScope budget{budget_for(request->budget, {request->trace, request->other})};
        if (request->page.empty())
            return serve(*request);
        if (request->port != 0 || request->has_no_browser)
            throw Error("--port and --no-browser have no effect with -o: a page is written, not served");
        return write_page(*request);
    };
    const auto port = [request](std::size_t given) { request->port = static_cast<int>(given); };
    return {
        .name = "view",
        .summary = "show every step of a trace as a heatmap, and the arithmetic of each number, in a browser",
        .groups = {{"Arguments", {{"TRACE.npz", "", request->trace, "a trace, as --trace writes it"}}},
                   {"What to show",
                    {{"--diff", "OTHER.npz", request->other,
                      "another run's trace, shown beside the first with the difference"},
                     {"--tokens", "FILE", request->tokens,
                      "labels of the axis n, the queries: a text file with one token per line"},
                     {"--tokens-m", "FILE", request->tokens_m,
                      "labels of the axis m, the keys (default: those of --tokens)"},
                     budget_flag(request->budget)}},
                   {"Where",
                    {{"-o,--output", "PAGE.html", request->page,
                      "write one self-contained page instead of serving it on this machine"},
                     {"--port", "N", whole_number(port, "", 1, 65535),
                      "the port of 127.0.0.1 to serve at (default: any that is free)"},
                     {"--no-browser", "", request->has_no_browser, "don't open the page in the desktop's browser"}}}},
        .run = run};
}

} // namespace attn
