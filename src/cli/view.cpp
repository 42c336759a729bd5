#include "commands.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/cli/shared_flags.hpp"
#include "attn/core/budget.hpp"
#include "attn/core/error.hpp"
#include "attn/files/file.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/show/page/server.hpp"
#include "attn/show/page/view.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

namespace attn::cli {
namespace {

namespace fs = std::filesystem;

struct Request {
    fs::path trace, page, other, tokens, tokens_m;
    int port = 0;
    bool has_no_browser = false;
    std::optional<std::size_t> budget;
};

show::TokenLabels labels_of(const Request& request)
{
    show::TokenLabels labels;
    if (!request.tokens.empty())
        labels.n = show::read_tokens(request.tokens);
    if (!request.tokens_m.empty())
        labels.m = show::read_tokens(request.tokens_m);
    return labels;
}

/// The files by their names, or by their paths where those are the same.
std::vector<show::TitledTrace> traces_of(const Request& request)
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
    std::vector<show::TitledRecording> runs;
    for (const show::TitledTrace& trace : traces_of(request))
        runs.push_back({trace.title, files::read_trace(trace.path)});
    const std::size_t steps = runs[0].recording.steps.size();
    const std::string page =
        files::about_file(request.trace, "", [&] { return show::page_of(std::move(runs), labels_of(request)); });
    files::write_file(request.page, page);
    print("{}: {} steps, {:.1f} MiB; open it in a browser\n", request.page.string(), steps,
          static_cast<double>(page.size()) / (1 << 20));
    return 0;
}

// ------------------------------------------------------------------------------------------------ a server

/// Ends a server at Ctrl-C or SIGTERM; and the whole program, where an answer takes longer than a second to compute, or the
/// signal comes again.
class Interruption {
public:
    explicit Interruption(show::ViewServer& server)
    {
        server_ = &server;
        struct sigaction action = {};
        action.sa_handler = [](int) {
            server_->stop();
            ::alarm(1);
        };
        action.sa_flags = static_cast<int>(SA_RESETHAND);
        for (const int signal : {SIGINT, SIGTERM})
            ::sigaction(signal, &action, nullptr);
        std::signal(SIGALRM, [](int) { ::_exit(0); });
    }
    ~Interruption()
    {
        for (const int signal : {SIGINT, SIGTERM})
            std::signal(signal, SIG_DFL);
        ::alarm(0);
    }
    Interruption(const Interruption&) = delete;
    Interruption& operator=(const Interruption&) = delete;

private:
    static inline show::ViewServer* server_ = nullptr; // a signal handler reaches nothing else
};

/// A file that leads a browser to an address. A command line is seen by every user of the machine; this file is read by
/// its owner alone.
class Signpost {
public:
    /// Empty path where no file can be made.
    explicit Signpost(const std::string& address)
    {
        std::error_code error;
        std::string path = (fs::temp_directory_path(error) / "attn-view-XXXXXX.html").string();
        const int file = ::mkstemps(path.data(), 5);
        if (file < 0)
            return;
        ::close(file);
        path_ = path;
        std::ofstream(path_) << "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>attn view</title>\n"
                             << "<meta name=\"referrer\" content=\"no-referrer\">\n"
                             << "<meta http-equiv=\"refresh\" content=\"0; url=" << address << "\">\n"
                             << "<a href=\"" << address << "\">The trace</a>\n";
    }
    ~Signpost()
    {
        std::error_code error;
        if (!path_.empty())
            fs::remove(path_, error);
    }
    Signpost(const Signpost&) = delete;
    Signpost& operator=(const Signpost&) = delete;

    const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

void open_browser(std::string page)
{
    posix_spawn_file_actions_t silent;
    posix_spawn_file_actions_init(&silent);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
        posix_spawn_file_actions_addopen(&silent, stream, "/dev/null", O_WRONLY, 0);
    std::string program = "xdg-open";
    char* const words[] = {program.data(), page.data(), nullptr};
    pid_t process = 0;
    ::posix_spawnp(&process, program.c_str(), &silent, nullptr, words, environ);
    posix_spawn_file_actions_destroy(&silent);
}

bool has_desktop() { return std::getenv("DISPLAY") != nullptr || std::getenv("WAYLAND_DISPLAY") != nullptr; }

int serve(const Request& request)
{
    show::ViewServer server = files::about_file(
        request.trace, "", [&] { return show::ViewServer(traces_of(request), labels_of(request), request.port); });
    const Interruption interruption(server);
    print("{}: {} steps at {}; Ctrl-C ends this\n", request.trace.string(), server.step_count(), server.address());
    files::expect_delivered(); // who comes earlier than run() waits
    std::optional<Signpost> signpost;
    if (!request.has_no_browser && has_desktop())
        signpost.emplace(server.address());
    if (signpost && !signpost->path().empty())
        open_browser(signpost->path().string());
    server.run();
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
        .groups =
            {{"Arguments", {{"TRACE.npz", "", request->trace, "a trace, as --trace writes it"}}},
             {"What to show",
              {{"--diff", "OTHER.npz", request->other,
                "another run's trace, shown beside the first with the difference"},
               {"--tokens", "FILE", request->tokens,
                "labels of the axis n, the queries: a text file with one token per line"},
               {"--tokens-m", "FILE", request->tokens_m, "labels of the axis m, the keys (default: those of --tokens)"},
               budget_flag(request->budget)}},
             {"Where",
              {{"-o,--output", "PAGE.html", request->page,
                "write one self-contained page instead of serving it on this machine"},
               {"--port", "N", whole_number(port, "", 1, 65535),
                "the port of 127.0.0.1 to serve at (default: any that is free); the address that is printed ends in a "
                "key, which is another one each time"},
               {"--no-browser", "", request->has_no_browser,
                "don't open the page in the desktop's browser; only print its address"}}}},
        .run = run};
}

} // namespace attn::cli
