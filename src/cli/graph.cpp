#include "commands.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/cli/shared_flags.hpp"
#include "attn/core/budget.hpp"
#include "attn/core/error.hpp"
#include "attn/files/file.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/show/graph/dataflow.hpp"
#include "attn/show/graph/draw.hpp"

#include <fmt/format.h>

#include <memory>

namespace attn::cli {
namespace {

enum class Format { svg, dot };

struct Request {
    std::filesystem::path trace, picture;
    show::DataflowOptions what;
    show::DrawOptions how;
    std::string title;
    std::optional<Format> format;
    std::optional<std::size_t> budget;
};

Format format_of(const Request& request)
{
    if (request.format)
        return *request.format;
    const std::string ending = request.picture.extension().string();
    if (!request.picture.empty() && ending != ".svg" && ending != ".dot")
        throw Error("-o: ", request.picture.string(), " ends neither in .svg nor in .dot: give --format");
    return ending == ".svg" ? Format::svg : Format::dot;
}

std::string title_of(const Request& request)
{
    if (!request.title.empty())
        return request.title;
    const std::string file = request.trace.filename().string();
    return "Dataflow of " + (request.what.scope.empty() ? file : request.what.scope + " in " + file);
}

int draw(Request request)
{
    expect_not_replaced("-o", request.picture, {request.trace});
    const Format format = format_of(request);
    request.how.title = title_of(request);
    const BudgetScope budget{budget_for(request.budget, {request.trace})};
    const files::TraceReader trace(request.trace);
    try {
        const show::Dataflow dataflow = show::dataflow_of(trace.outline(), request.what);
        const std::string picture =
            format == Format::svg ? show::to_svg(dataflow, request.how) : show::to_dot(dataflow, request.how);
        if (request.picture.empty()) {
            print_lines(picture);
            return 0;
        }
        files::write_file(request.picture, picture);
        print("{}: {}\n", request.picture.string(), show::summary(dataflow));
    } catch (const files::FileError&) {
        throw;
    } catch (const Error& error) {
        throw Error(request.trace.string(), ": ", error.what());
    }
    return 0;
}

} // namespace

Command graph_command()
{
    const auto request = std::make_shared<Request>();
    return {.name = "graph",
            .summary = "draw which step uses which, as the formulas say",
            .groups = {{"Arguments", {{"TRACE.npz", "", request->trace, "a trace, as --trace writes it"}}},
                       {"What to draw",
                        {{"--scope", "SCOPE", request->what.scope,
                          "draw only the steps in this scope, such as encoder.layers.0"},
                         {"--to", "STEP", request->what.targets, "draw only this step and what it follows from"},
                         {"--depth", "N", whole_number(request->what.depth, 0, 100),
                          "fold scopes inside more than N others into one box each (default: so that there are at most "
                          "60 boxes)"},
                         {"--formulas", "", request->how.formulas, "write formulas in the boxes, too"},
                         budget_flag(request->budget)}},
                       {"Where",
                        {{"-o,--output", "PICTURE", request->picture,
                          "a file that ends in .svg or .dot (default: DOT on standard output)"},
                         {"--format", "", one_of(request->format, {{"svg", Format::svg}, {"dot", Format::dot}}),
                          "SVG, laid out by Graphviz, or its language DOT"},
                         {"--title", "TEXT", request->title, "the picture's title, for readers who cannot see it"}}}},
            .run = [request] { return draw(*request); }};
}

} // namespace attn::cli
