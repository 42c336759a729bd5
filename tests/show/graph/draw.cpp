#include "attn/show/graph/draw.hpp"
#include "attn/show/graph/process.hpp"

#include "attn/core/error.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include <chrono>

using namespace attn;
using namespace attn::show;

namespace {

Step drawn_step(std::string path, std::string formula = "", std::vector<std::string> axes = {}, Shape shape = {1})
{
    return {std::move(path), std::move(formula), std::move(axes), "", {}, {std::move(shape), {}}};
}

Recording attention()
{
    return {{drawn_step("queries", "", {"n", "d_k"}, {2, 3}), drawn_step("keys", "", {"m", "d_k"}, {4, 3}),
             drawn_step("head.0.scores", "queries @ keys.T", {"n", "m"}, {2, 4}),
             drawn_step("head.0.weights", "softmax(scores)", {"n", "m"}, {2, 4}), drawn_step("scale")},
            {}};
}

std::size_t count(const std::string& text, const std::string& part)
{
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++found;
    return found;
}

/// What an XML reader makes of the picture: nothing but its own elements, each closed.
void expect_only_own_elements(const std::string& svg)
{
    std::vector<std::string> open;
    for (std::size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
        const bool is_end = svg[at + 1] == '/';
        const std::size_t begin = at + (is_end ? 2 : 1), end = svg.find('>', at);
        REQUIRE(end != std::string::npos);
        const std::string name = svg.substr(begin, svg.find_first_of(" >/", begin) - begin);
        CAPTURE(name, at);
        const bool is_own =
            std::string(" svg title desc style g path polygon text ").find(" " + name + " ") != std::string::npos;
        REQUIRE(is_own);
        if (is_end) {
            REQUIRE(!open.empty());
            REQUIRE(open.back() == name);
            open.pop_back();
        } else if (svg[end - 1] != '/') {
            open.push_back(name);
        }
    }
    CHECK(open.empty());
}

} // namespace

TEST_CASE("DOT has a box per step with its shape, an edge per use and a cluster per scope", "[graph][dot]")
{
    const Recording recording = attention();
    const std::string dot = to_dot(dataflow_of(recording), {.title = "Scores"});
    CHECK_THAT(dot, ContainsSubstring("digraph \"Scores\" {\n"));
    CHECK_THAT(dot, ContainsSubstring("  \"queries\" [label=\"queries\\n[n=2, d_k=3]\", class=\"given\""));
    CHECK_THAT(dot, ContainsSubstring("subgraph \"cluster_head.0\" {\n    label=\"head.0\""));
    CHECK_THAT(dot, ContainsSubstring("    \"head.0.scores\" [label=\"scores\\n[n=2, m=4]\", class=\"computed\""));
    CHECK_THAT(dot, ContainsSubstring("tooltip=\"head.0.scores = queries @ keys.T\""));
    CHECK_THAT(dot, ContainsSubstring("  \"queries\" -> \"head.0.scores\"\n  \"keys\" -> \"head.0.scores\"\n"
                                      "  \"head.0.scores\" -> \"head.0.weights\"\n}\n"));
    CHECK(count(dot, " -> ") == 3);
    CHECK((dot == to_dot(dataflow_of(recording), {.title = "Scores"})));
    CHECK_THAT(to_dot(dataflow_of(recording), {.formulas = true}),
               ContainsSubstring("label=\"scores\\n[n=2, m=4]\\n= queries @ keys.T\""));
}

TEST_CASE("a folded scope says how many steps it has and what it ends with", "[graph][dot]")
{
    const Recording recording = attention();
    const std::string dot = to_dot(dataflow_of(recording, {.depth = 0}));
    CHECK_THAT(dot,
               ContainsSubstring("\"head.0.*\" [label=\"head.0, 2 steps\\n→ weights[n=2, m=4]\", class=\"folded\""));
    CHECK_THAT(dot, ContainsSubstring("// 3 boxes and 1 edge; folded at depth 0: head.0 (2 steps)\n"));
    CHECK_THAT(dot, ContainsSubstring("label=\"queries[n=2, d_k=3]\\nkeys[m=4, d_k=3]\", class=\"given gathered\""));
}

TEST_CASE("a frame is called without the frame around it, but never by a number alone", "[graph][dot]")
{
    const Recording recording{{drawn_step("layers.2.x"), drawn_step("layers.2.y", "x"),
                               drawn_step("layers.2.norm.x", "y"), drawn_step("layers.2.norm.y", "x"),
                               drawn_step("layers.2.1.x", "layers.2.norm.y"), drawn_step("layers.2.1.y", "x")},
                              {}};
    const std::string dot = to_dot(dataflow_of(recording));
    CHECK_THAT(dot, ContainsSubstring("subgraph \"cluster_layers.2\" {\n    label=\"layers.2\""));
    CHECK_THAT(dot, ContainsSubstring("subgraph \"cluster_layers.2.norm\" {\n      label=\"norm\""));
    CHECK_THAT(dot, ContainsSubstring("subgraph \"cluster_layers.2.1\" {\n      label=\"layers.2.1\""));
}

TEST_CASE("of more than twelve given steps in a box the first twelve are named, and the others counted", "[graph][dot]")
{
    std::vector<Step> steps;
    std::string sum = "x0";
    for (std::size_t i = 0; i < 14; ++i) {
        steps.push_back(drawn_step("x" + std::to_string(i)));
        sum += i == 0 ? "" : " + x" + std::to_string(i);
    }
    steps.push_back(drawn_step("s.y", sum));
    steps.push_back(drawn_step("s.z", "y"));
    const std::string dot = to_dot(dataflow_of({steps, {}}, {.depth = 0}));
    CHECK_THAT(dot, ContainsSubstring("x10[1]\\nx11[1]\\nand 2 more\""));
}

TEST_CASE("names and formulas stay text in DOT and SVG, whatever characters they have", "[graph][dot][svg]")
{
    const std::string hostile = "\"]; evil [label=\"\\N\\l<script>alert(1)</script>&lt;-- ]]>\xEF\xBF\xBE\xFF\n\x01";
    Recording recording{{drawn_step(hostile, "", {hostile}), drawn_step("a\\"), drawn_step("cluster_x", "a_b(")}, {}};
    recording.steps[2].formula = "";
    recording.steps.push_back(drawn_step("s</title><b>.t\"", "cluster_x + 1"));
    const Dataflow dataflow = dataflow_of(recording);
    const std::string dot = to_dot(dataflow, {.title = hostile});
    CHECK(count(dot, "\n  \"") == dataflow.boxes.size() - 1 + dataflow.edges.size());
    CHECK(dot.find("<script>") != std::string::npos); // text in quotes
    CHECK(dot.find("\"\\N") == std::string::npos);
    CHECK(dot.find("\\\\N") != std::string::npos);

    const std::string svg = to_svg(dataflow, {.title = hostile});
    CHECK(svg.find("<script") == std::string::npos);
    CHECK(svg.find("<b>") == std::string::npos);
    CHECK(svg.find('\x01') == std::string::npos);
    CHECK(svg.find("\xEF\xBF\xBE") == std::string::npos);
    CHECK(count(svg, "class=\"node") == dataflow.boxes.size());
    CHECK(count(svg, "class=\"edge\"") == dataflow.edges.size());
    expect_only_own_elements(svg);
}

TEST_CASE("SVG says in words what it shows, suits light and dark pages, and loads nothing", "[graph][svg]")
{
    const Recording recording = attention();
    const Dataflow dataflow = dataflow_of(recording);
    const std::string svg = to_svg(dataflow, {.title = "Scores & weights"});
    CHECK(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"attn-graph\" role=\"img\" width=\"", 0) == 0);
    CHECK_THAT(svg, ContainsSubstring("viewBox=\"0.00 0.00 "));
    CHECK_THAT(
        svg, ContainsSubstring("\n<title>Scores &amp; weights</title>\n<desc>" + description(dataflow) + "</desc>\n"));
    CHECK_THAT(svg, ContainsSubstring("@media (prefers-color-scheme: dark)"));
    CHECK_THAT(svg, ContainsSubstring(
                        "<g class=\"node computed\">\n<title>head.0.scores = queries @ keys.T</title>\n<polygon"));
    CHECK_THAT(svg, ContainsSubstring("<g class=\"cluster frame\">\n<title>head.0</title>\n"));
    for (const char* text : {">queries<", ">[n=2, d_k=3]<", ">scores<", ">[n=2, m=4]<", ">head.0<"})
        CHECK_THAT(svg, ContainsSubstring(text));
    for (const char* absent : {"<!--", "href", "xlink", " id=", "url("})
        CHECK(svg.find(absent) == std::string::npos);
    CHECK(svg.substr(svg.size() - 7) == "</svg>\n");
    expect_only_own_elements(svg);
}

TEST_CASE("a program gets its input and leaves its output, without a shell", "[graph][process]")
{
    const std::string long_text(1 << 20, 'x'); // more than a pipe holds
    const ProcessResult copied = run_process({"cat"}, long_text, std::chrono::seconds(20));
    CHECK(copied.code == 0);
    CHECK((copied.output == long_text));
    const ProcessResult failed = run_process({"cat", "/no; such $(file)"}, "", std::chrono::seconds(20));
    CHECK(failed.code != 0);
    CHECK_THAT(failed.errors, ContainsSubstring("/no; such $(file)"));
    CHECK(run_process({"attn-no-such-program"}, "", std::chrono::seconds(1)).end == ProcessResult::End::not_found);
}

TEST_CASE("a program that takes too long is ended", "[graph][process]")
{
    const auto begin = std::chrono::steady_clock::now();
    CHECK(run_process({"sleep", "60"}, "", std::chrono::milliseconds(50)).end == ProcessResult::End::too_slow);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}
