#include "explain.hpp"

#include "attn/error.hpp"
#include "attn/formula/explain.hpp"
#include "attn/trace_io/trace_file.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

namespace attn {
namespace {

/// What one command line asks for.
struct Request {
    std::filesystem::path trace;
    std::string cell;
    ExplainOptions options;
};

int print_explanation(const Request& request)
{
    const Recording recording = read_trace(request.trace);
    try {
        fmt::print("{}", explain_text(recording, request.cell, request.options));
    } catch (const Error& error) {
        throw Error("explain: " + request.trace.string() + ": " + error.what());
    }
    return 0;
}

} // namespace

std::function<int()> add_explain_command(CLI::App& app)
{
    CLI::App* command = app.add_subcommand("explain", "print the arithmetic of one number of a trace");
    const auto request = std::make_shared<Request>();
    command->add_option("TRACE.npz", request->trace, "as a lesson's --trace wrote it")->required();
    command->add_option("STEP[INDEX]", request->cell, "scores[0,2]; scores[0] for a row; variance for a single number")
        ->required();
    command
        ->add_option("--terms", request->options.terms,
                     "of a longer sum the largest so many, and the rest as a subtotal")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::size_t{1}, std::size_t{10'000}));
    command->add_option("--depth", request->options.depth, "explain operands, too, and theirs, so many steps back")
        ->type_name("N")
        ->capture_default_str()
        ->check(CLI::Range(std::size_t{0}, std::size_t{100}));
    command->add_option("--precision", request->options.digits, "significant digits (1 to 17); all unless given")
        ->type_name("DIGITS")
        ->check(CLI::Range(std::size_t{1}, std::size_t{17}));
    return [request] { return print_explanation(*request); };
}

} // namespace attn
