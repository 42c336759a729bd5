#include "attn/show/graph/draw.hpp"
#include "attn/show/graph/process.hpp"

#include "plain_line.hpp"

#include "attn/core/error.hpp"
#include "attn/files/file.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace attn::show {
namespace {

constexpr std::chrono::seconds longest{60};

// Colours by class, so that one picture suits light and dark pages. What a renderer without style sheets shows is what
// Graphviz wrote at the elements.
constexpr std::string_view style = R"(<style>
.attn-graph { color: #1f2328; color: var(--attn-graph-ink, #1f2328); max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) { .attn-graph { color: #e6edf3; color: var(--attn-graph-ink, #e6edf3); } }
.attn-graph:root { color-scheme: light dark; }
.attn-graph text { fill: currentColor; font-family: Helvetica, Arial, "Liberation Sans", sans-serif; }
.attn-graph .cluster path { fill: currentColor; fill-opacity: 0.04; stroke: currentColor; stroke-opacity: 0.3; }
.attn-graph .node text { font-size: 11.5px; }
.attn-graph .cluster text { font-size: 10.5px; fill-opacity: 0.75; }
.attn-graph .gathered text, .attn-graph .node text + text { font-size: 10.5px; }
.attn-graph .node text + text { fill-opacity: 0.8; }
.attn-graph .gathered text + text { fill-opacity: 1; }
.attn-graph .edge path { fill: none; stroke: currentColor; stroke-opacity: 0.65; }
.attn-graph .edge polygon { fill: currentColor; stroke: none; fill-opacity: 0.8; }
.attn-graph .computed polygon { fill: currentColor; fill-opacity: 0.07; stroke: currentColor; stroke-opacity: 0.7; }
.attn-graph .folded polygon { fill: currentColor; fill-opacity: 0.07; stroke: currentColor; stroke-opacity: 0.7; }
.attn-graph .given path { fill: #2f7de0; fill-opacity: 0.16; stroke: #2f7de0; }
</style>
)";

constexpr std::size_t most_described = 10'000; // letters

std::string escaped(std::string_view text)
{
    std::string result;
    for (const char c : text)
        result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
    return result;
}

/// What stands between two texts, the first time; nothing where there is no such thing.
std::string_view between(std::string_view text, std::string_view open, std::string_view close)
{
    const std::size_t at = text.find(open);
    if (at == std::string_view::npos)
        return {};
    const std::size_t begin = at + open.size(), end = text.find(close, begin);
    return end == std::string_view::npos ? std::string_view{} : text.substr(begin, end - begin);
}

/// Graphviz's elements without its comments and numbers, which change from one version or page to the other. The text
/// where the mouse rests becomes a title, as browsers expect it, in place of a link that leads nowhere.
std::string tidied(std::string_view svg)
{
    std::string result, title; // which a better one can replace
    const auto take = [&](std::string_view beginning) {
        const bool is_next = svg.starts_with(beginning);
        svg.remove_prefix(is_next ? beginning.size() : 0);
        return is_next;
    };
    const auto take_until = [&](std::string_view end) {
        const std::string_view taken = svg.substr(0, svg.find(end));
        svg.remove_prefix(std::min(svg.size(), taken.size() + end.size()));
        return taken;
    };
    while (!svg.empty()) {
        if (take("<!--")) {
            take_until("-->\n");
        } else if (take("<title>")) {
            if (result.ends_with("class=\"cluster frame\">\n"))
                take("cluster_");
            title = "<title>" + std::string(take_until("</title>\n")) + "</title>\n";
        } else if (take("<g id=\"a_")) {
            take_until("xlink:title=\"");
            title = "<title>" + std::string(take_until("\"")) + "</title>\n";
            take_until(">\n");
        } else if (take(" id=\"")) {
            take_until("\"");
        } else if (!take("</a>\n</g>\n")) {
            result += std::exchange(title, "");
            result += svg.front();
            svg.remove_prefix(1);
        }
    }
    return result;
}

/// What Graphviz makes of the text.
std::string laid_out(const std::string& dot)
{
    const ProcessResult result = run_process({"dot", "-Tsvg"}, dot, longest);
    if (result.end == ProcessResult::End::not_found)
        throw Error("Graphviz, whose program dot lays out the picture, is not installed: install graphviz (apt-get "
                    "install graphviz), or write DOT with --format dot, which other programs draw");
    if (result.end == ProcessResult::End::too_slow)
        throw Error("Graphviz needs more than ", longest.count(),
                    " s for this picture: draw less of it, with --depth, --scope or --to");
    if (result.code != 0 || result.output.find("<svg") == std::string::npos ||
        result.output.find("</title>\n") == std::string::npos)
        throw Error("Graphviz failed with exit code ", result.code, ": ",
                    printable(result.errors.substr(0, result.errors.find('\n'))));
    return result.output;
}

} // namespace

std::string to_svg(const Dataflow& dataflow, const DrawOptions& options)
{
    const std::string drawn = laid_out(to_dot(dataflow, options));
    const std::string_view tag = between(drawn, "<svg", ">");
    const std::size_t begin = drawn.find("</title>\n"); // of the graph, whose title is written below
    const std::string_view body = std::string_view(drawn).substr(begin + 9);
    std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"attn-graph\" role=\"img\"";
    for (const std::string_view size : {"width", "height"})
        svg += " " + std::string(size) + "=\"" + std::string(between(tag, std::string(size) + "=\"", "pt\"")) + "\"";
    svg += " viewBox=\"" + std::string(between(tag, "viewBox=\"", "\"")) + "\">\n";
    svg += "<title>" + escaped(plain_line(options.title)) + "</title>\n<desc>" +
           escaped(plain_line(description(dataflow), most_described)) + "</desc>\n";
    const std::string_view moved = between(drawn, "transform=\"", "\"");
    return svg + std::string(style) + "<g transform=\"" + std::string(moved) + "\">\n" + tidied(body);
}

} // namespace attn::show
