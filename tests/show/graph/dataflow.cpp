#include "attn/show/graph/dataflow.hpp"

#include "attn/core/error.hpp"
#include "caught.hpp"
#include "test.hpp"

#include <algorithm>

using namespace attn;
using namespace attn::show;

namespace {

Step step(std::string path, std::string formula = "")
{
    return {std::move(path), std::move(formula), {}, "", {}, {{1}, {1}}};
}

/// A post-norm layer in small: its attention and its norm are scopes, and x goes around the attention.
Recording layer()
{
    return {
        {step("x"), step("key_weights"), step("query_weights"), step("gain"), step("self_attn.keys", "x @ key_weights"),
         step("self_attn.queries", "x @ query_weights"), step("self_attn.head.0.scores", "queries @ keys.T"),
         step("self_attn.head.0.scaled", "scores / sqrt(keys.shape[-1])"),
         step("self_attn.head.1.scores", "keys @ queries.T"), step("self_attn.output", "head.0.scaled + head.1.scores"),
         step("residual", "x + self_attn.output"), step("norm.mean", "mean(x, axis=-1)"),
         step("norm.output", "(x - mean) * gain"), step("output", "norm.output + norm.output")},
        {{"norm.x", "residual"}}};
}

using Pairs = std::vector<std::string>;

/// The edges by the paths of their boxes, sorted: "x -> keys".
Pairs edges_of(const Dataflow& dataflow)
{
    Pairs edges;
    for (const DataflowEdge& edge : dataflow.edges)
        edges.push_back(dataflow.boxes[edge.from].path + " -> " + dataflow.boxes[edge.to].path);
    std::ranges::sort(edges);
    return edges;
}

Pairs paths_of(const Dataflow& dataflow, DataflowBox::Kind kind)
{
    Pairs paths;
    for (const DataflowBox& box : dataflow.boxes)
        if (box.kind == kind)
            paths.push_back(box.path);
    return paths;
}

std::string refusal(const Recording& recording, const DataflowOptions& options = {})
{
    return test::caught<Error>([&] { dataflow_of(recording, options); }, "drawn");
}

} // namespace

TEST_CASE("the edges are what the formulas use, with other names resolved and sizes left out", "[graph]")
{
    const Recording recording = layer();
    const Dataflow dataflow = dataflow_of(recording);
    CHECK(dataflow.boxes.size() == recording.steps.size());
    CHECK(edges_of(dataflow) ==
          Pairs{"gain -> norm.output", "key_weights -> self_attn.keys", "norm.mean -> norm.output",
                "norm.output -> output", "query_weights -> self_attn.queries", "residual -> norm.mean",
                "residual -> norm.output", "self_attn.head.0.scaled -> self_attn.output",
                "self_attn.head.0.scores -> self_attn.head.0.scaled", "self_attn.head.1.scores -> self_attn.output",
                "self_attn.keys -> self_attn.head.0.scores", "self_attn.keys -> self_attn.head.1.scores",
                "self_attn.output -> residual", "self_attn.queries -> self_attn.head.0.scores",
                "self_attn.queries -> self_attn.head.1.scores", "x -> residual", "x -> self_attn.keys",
                "x -> self_attn.queries"});
    CHECK(paths_of(dataflow, DataflowBox::Kind::given) == Pairs{"x", "key_weights", "query_weights", "gain"});
    CHECK(paths_of(dataflow, DataflowBox::Kind::folded).empty());
}

TEST_CASE("scopes are frames, a word and its number one of them", "[graph]")
{
    const Recording recording = layer();
    const Dataflow dataflow = dataflow_of(recording);
    std::vector<std::pair<std::string, std::size_t>> frames;
    for (const DataflowFrame& frame : dataflow.frames)
        frames.emplace_back(frame.path, frame.parent);
    CHECK(frames == std::vector<std::pair<std::string, std::size_t>>{
                        {"", 0}, {"self_attn", 0}, {"self_attn.head.0", 1}, {"self_attn.head.1", 1}, {"norm", 0}});
    const auto frame_of = [&](const std::string& path) {
        return dataflow.frames[std::ranges::find(dataflow.boxes, path, &DataflowBox::path)->frame].path;
    };
    CHECK(frame_of("x").empty());
    CHECK(frame_of("self_attn.keys") == "self_attn");
    CHECK(frame_of("self_attn.head.1.scores") == "self_attn.head.1");
    CHECK(frame_of("norm.mean") == "norm");
}

TEST_CASE("at depth 0 each scope is one box, edges into it are merged, and what it alone is given is one box",
          "[graph]")
{
    const Recording recording = layer();
    const Dataflow dataflow = dataflow_of(recording, {.depth = 0});
    CHECK(edges_of(dataflow) == Pairs{"gain -> norm", "key_weights -> self_attn", "norm -> output", "residual -> norm",
                                      "self_attn -> residual", "x -> residual", "x -> self_attn"});
    CHECK(paths_of(dataflow, DataflowBox::Kind::folded) == Pairs{"self_attn", "norm"});
    const auto weights = std::ranges::find(dataflow.boxes, "key_weights", &DataflowBox::path);
    CHECK(weights->steps == std::vector<std::size_t>{1, 2});
    const auto folded = std::ranges::find(dataflow.boxes, "self_attn", &DataflowBox::path);
    CHECK(folded->steps.size() == 6);
    CHECK(label_of(dataflow, *folded, folded->steps.back()) == "output[1]");
    CHECK(summary(dataflow) == "7 boxes and 7 edges; folded at depth 0: self_attn (6 steps) and norm (2 steps)");
}

TEST_CASE("a scope of one step is drawn as that step", "[graph]")
{
    const Recording recording = layer();
    const Dataflow dataflow = dataflow_of(recording, {.depth = 1});
    CHECK(paths_of(dataflow, DataflowBox::Kind::folded) == Pairs{"self_attn.head.0"});
    const auto alone = std::ranges::find(dataflow.boxes, "self_attn.head.1.scores", &DataflowBox::path);
    REQUIRE(alone != dataflow.boxes.end());
    CHECK(label_of(dataflow, *alone, alone->steps[0]) == "head.1.scores[1]");
}

TEST_CASE("a step and a folded scope can have one path", "[graph]")
{
    const Recording recording{{step("norm"), step("norm.mean", "norm + 1"), step("norm.output", "mean + norm")}, {}};
    const Dataflow dataflow = dataflow_of(recording, {.depth = 0});
    CHECK(dataflow.boxes.size() == 2);
    CHECK((dataflow.edges == std::vector<DataflowEdge>{{0, 1}}));
}

TEST_CASE("with a scope only its steps are drawn, and what they use from outside is given", "[graph]")
{
    const Recording recording = layer();
    const Dataflow norm = dataflow_of(recording, {.scope = "norm"});
    CHECK(edges_of(norm) ==
          Pairs{"gain -> norm.output", "norm.mean -> norm.output", "residual -> norm.mean", "residual -> norm.output"});
    CHECK(paths_of(norm, DataflowBox::Kind::given) == Pairs{"gain", "residual"});
    const Dataflow heads = dataflow_of(recording, {.scope = "self_attn.head"});
    CHECK(paths_of(heads, DataflowBox::Kind::given) == Pairs{"self_attn.keys", "self_attn.queries"});
    CHECK(heads.boxes.size() == 5);
}

TEST_CASE("with targets only these and what they follow from is drawn", "[graph]")
{
    const Recording recording = layer();
    const Dataflow dataflow = dataflow_of(recording, {.targets = {"self_attn.head.0.scores"}});
    CHECK(edges_of(dataflow) == Pairs{"key_weights -> self_attn.keys", "query_weights -> self_attn.queries",
                                      "self_attn.keys -> self_attn.head.0.scores",
                                      "self_attn.queries -> self_attn.head.0.scores", "x -> self_attn.keys",
                                      "x -> self_attn.queries"});
    CHECK(dataflow_of(recording, {.targets = {"norm.x"}}).boxes.size() ==
          dataflow_of(recording, {.targets = {"residual"}}).boxes.size());
    CHECK(dataflow_of(recording, {.scope = "self_attn", .targets = {"self_attn.keys"}}).boxes.size() == 3);
}

TEST_CASE("what can't be drawn is refused, with similar names", "[graph]")
{
    CHECK(refusal(layer(), {.scope = "self_atn"}) == "no scope is called self_atn; did you mean self_attn?");
    CHECK_THAT(refusal(layer(), {.scope = "residual"}), ContainsSubstring("residual is a step, not a scope"));
    CHECK(refusal(layer(), {.targets = {"ouput"}}) ==
          "no step is called ouput; did you mean output or self_attn.output or "
          "norm.output?");
    CHECK_THAT(refusal(layer(), {.scope = "norm", .targets = {"x"}}), ContainsSubstring("no step of norm leads to"));
    CHECK_THAT(refusal({{step("a"), step("b", "a + c")}, {}}),
               ContainsSubstring("b can't be drawn: no earlier step is called c, in its formula a + c"));
    CHECK_THAT(refusal({{step("a"), step("b", "a +")}, {}}), ContainsSubstring("\"a +\""));
    CHECK(refusal({}) == "there are no steps to draw");
}

TEST_CASE("without a depth, scopes are opened as long as there are at most 60 boxes", "[graph]")
{
    const auto layers = [](std::size_t count, std::size_t steps) {
        Recording recording{{step("x")}, {}};
        for (std::size_t i = 0; i < count; ++i)
            for (std::size_t j = 0; j < steps; ++j)
                recording.steps.push_back(step("layers." + std::to_string(i) + ".s" + std::to_string(j), "x + x"));
        return recording;
    };
    const auto boxes = [](const Recording& recording) { return dataflow_of(recording).boxes.size(); };
    CHECK(boxes(layers(2, 29)) == 59);   // 58 steps and x
    CHECK(boxes(layers(2, 30)) == 3);    // one more would be too many
    CHECK(boxes(layers(59, 300)) == 60); // a box each
    const Recording many = layers(60, 300);
    const Dataflow together = dataflow_of(many); // layers as one box
    CHECK(edges_of(together) == Pairs{"x -> layers"});
    CHECK(together.boxes[1].steps.size() == 60 * 300);
}

TEST_CASE("what a picture shows is described in words", "[graph]")
{
    const Recording recording = layer();
    CHECK(
        description(dataflow_of(recording, {.depth = 0})) ==
        "7 boxes, from top to bottom. Given: x, key_weights, query_weights and gain. self_attn (6 steps, folded) from "
        "x, "
        "key_weights and query_weights. residual from x and self_attn. norm (2 steps, folded) from residual and gain. "
        "output from norm.");
}
