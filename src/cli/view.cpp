#include "commands.hpp"
#include "shared_flags.hpp"

#include "attn/error.hpp"
#include "attn/view/view.hpp"
#include "attn/trace_io/file.hpp"
#include "attn/trace_io/trace_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

namespace attn {
namespace {

/// What one command line asks for.
struct Request {
    std::filesystem::path trace, page, other, tokens, tokens_m;
};

int view(const Request& request)
{
    expect_not_replaced("-o", request.page, {request.trace, request.other, request.tokens, request.tokens_m});
    PageOptions options;
    options.title = request.trace.filename().string();
    if (!request.tokens.empty())
        options.tokens = read_tokens(request.tokens);
    if (!request.tokens_m.empty())
        options.tokens_m = read_tokens(request.tokens_m);
    if (!request.other.empty()) {
        const std::filesystem::path& other = request.other;
        const bool is_namesake = other.filename() == request.trace.filename();
        options.others.push_back({(is_namesake ? other : other.filename()).string(), read_trace(other).steps});
        options.title = (is_namesake ? request.trace : request.trace.filename()).string();
    }
    const std::vector<Step> steps = read_trace(request.trace).steps;
    try {
        write_page(request.page, steps, options);
    } catch (const FileError&) {
        throw;
    } catch (const Error& error) {
        throw Error(request.trace.string() + ": " + error.what());
    }
    fmt::print("{}: {} steps, {:.1f} MiB; open it in a browser\n", request.page.string(), steps.size(),
               static_cast<double>(std::filesystem::file_size(request.page)) / (1 << 20));
    return 0;
}

} // namespace

Command view_command()
{
    const auto request = std::make_shared<Request>();
    return {.name = "view",
            .summary = "write a page that shows every step as a heatmap, with the arithmetic of every number",
            .groups = {{"Arguments", {{"TRACE.npz", "", request->trace, "a trace, as --trace writes it"}}},
                       {"Flags",
                        {{"-o,--output", "PAGE.html", request->page, "the page to write", true},
                         {"--diff", "OTHER.npz", request->other,
                          "another run's trace, shown beside the first with the difference"},
                         {"--tokens", "FILE", request->tokens,
                          "labels of the axis n, the queries: a text file with one token per line"},
                         {"--tokens-m", "FILE", request->tokens_m,
                          "labels of the axis m, the keys; those of --tokens where it is not given"}}}},
            .run = [request] { return view(*request); }};
}

} // namespace attn
