#include "commands.hpp"

#include "attn/formula/explain.hpp"
#include "attn/trace_io/file.hpp"
#include "attn/trace_io/trace_file.hpp"

#include <fmt/format.h>

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
    fmt::print("{}",
               about_file(request.trace, "", [&] { return explain_text(recording, request.cell, request.options); }));
    return 0;
}

} // namespace

Command explain_command()
{
    const auto request = std::make_shared<Request>();
    ExplainOptions& options = request->options;
    return {.name = "explain",
            .summary = "print the arithmetic of one number of a trace",
            .groups = {{"Arguments",
                        {{"TRACE.npz", "", request->trace, "a trace, as --trace writes it"},
                         {"STEP[INDEX]", "", request->cell,
                          "scores[0,2]; scores[0] for a row; variance for a single number"}}},
                       {"Flags",
                        {{"--terms", "N", whole_number(options.terms, 1, 10'000),
                          "of a longer sum, show the N largest terms, and a subtotal of the rest"},
                         {"--depth", "N", whole_number(options.depth, 0, 100),
                          "explain operands, too, and their operands, up to N steps back"},
                         {"--precision", "DIGITS", whole_number(options.digits, 1, 17),
                          "significant digits; all where it is not given"}}}},
            .run = [request] { return print_explanation(*request); }};
}

} // namespace attn
