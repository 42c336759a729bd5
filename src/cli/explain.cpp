#include "commands.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/cli/shared_flags.hpp"
#include "attn/core/budget.hpp"
#include "attn/files/file.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/formula/explain.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>

namespace attn::cli {
namespace {

struct Request {
    std::filesystem::path trace;
    std::string cell;
    formula::ExplainOptions options;
    std::optional<std::size_t> budget;
};

int print_explanation(const Request& request)
{
    const BudgetScope budget{budget_for(request.budget, {request.trace})};
    const Recording recording = files::read_trace(request.trace);
    print_lines(files::about_file(request.trace, "",
                                  [&] { return formula::explain_text(recording, request.cell, request.options); }));
    return 0;
}

} // namespace

Command explain_command()
{
    const auto request = std::make_shared<Request>();
    formula::ExplainOptions& options = request->options;
    return {.name = "explain",
            .summary = "print the arithmetic of one number of a trace",
            .groups = {{"Arguments",
                        {{"TRACE.npz", "", request->trace, "a trace, as --trace writes it"},
                         {"STEP[INDEX]", "", request->cell,
                          "scores[0,2]; scores[0] for a row; variance for a single number"}}},
                       {"Flags",
                        {{"--terms", "N", whole_number(options.terms, 1, 10'000),
                          "show the N largest terms of a longer sum, and a subtotal of the rest"},
                         {"--depth", "N", whole_number(options.depth, 0, 100),
                          "explain operands, too, and their operands, up to N steps back"},
                         {"--precision", "DIGITS", whole_number(options.digits, 1, 17),
                          "significant digits (default: all)"},
                         budget_flag(request->budget)}}},
            .run = [request] { return print_explanation(*request); }};
}

} // namespace attn::cli
