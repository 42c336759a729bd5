#include "view.hpp"

#include "attn/error.hpp"
#include "attn/view/view.hpp"
#include "attn/trace_io/file.hpp"
#include "attn/trace_io/trace_file.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <system_error>

namespace attn {
namespace {

/// What one command line asks for.
struct Request {
    std::filesystem::path trace, page, other, tokens, tokens_m;
};

/// A page that would take the place of what it shows.
void expect_sensible(const Request& request)
{
    for (const std::filesystem::path& source : {request.trace, request.other, request.tokens, request.tokens_m}) {
        std::error_code missing;
        if (!source.empty() && std::filesystem::equivalent(request.page, source, missing))
            throw Error("view: -o would replace " + source.string() + ", which is read");
    }
}

int view(const Request& request)
{
    expect_sensible(request);
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
        throw Error("view: " + request.trace.string() + ": " + error.what());
    }
    fmt::print("{}: {} steps, {:.1f} MiB; open it in a browser\n", request.page.string(), steps.size(),
               static_cast<double>(std::filesystem::file_size(request.page)) / (1 << 20));
    return 0;
}

} // namespace

std::function<int()> add_view_command(CLI::App& app)
{
    CLI::App* command = app.add_subcommand("view", "one self-contained page: every step as a heatmap, every number's "
                                                   "arithmetic");
    const auto request = std::make_shared<Request>();
    command->add_option("TRACE.npz", request->trace, "as a lesson's --trace wrote it")->required();
    command->add_option("-o,--output", request->page, "the page to write")->type_name("PAGE.html")->required();
    command->add_option("--diff", request->other, "another run's trace, shown beside the first with the difference")
        ->type_name("OTHER.npz");
    command->add_option("--tokens", request->tokens, "labels of the axis n, the queries: a text file, a token a line")
        ->type_name("FILE");
    command->add_option("--tokens-m", request->tokens_m, "labels of the axis m, the keys; --tokens unless given")
        ->type_name("FILE");
    return [request] { return view(*request); };
}

} // namespace attn
