// Step names are API: goldens, lessons and other people's dumps are compared by them. Each doc comment lists a function's
// steps; here are the options that change the list.

#include "examples.hpp"
#include "masked.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/core/choices.hpp"
#include "attn/reference/layers/activation.hpp"

using namespace attn;
using namespace attn::test;

namespace {

constexpr HeadSizes three_features{.d_model = 5, .h_d_k = 3, .h_d_v = 3, .d_memory = 5, .d_value = 5};

const Matrix x = Numbers(1).matrix(3, 6);

MultiHeadWeights heads(const HeadSizes& sizes = {})
{
    Numbers numbers(2);
    return random_heads(numbers, sizes);
}

EncoderLayerWeights layer_weights()
{
    Numbers numbers(3);
    return random_encoder_layer(numbers);
}

/// A doc comment's table of a known number of rows.
Lines table_of(const std::string& header, const std::string& function, std::size_t rows)
{
    Lines table = promised(header, function);
    REQUIRE(table.size() == rows);
    return table;
}

/// Names of a run's steps, and other names with what they mean.
Lines paths_of(const Recorder& recorder)
{
    Lines paths;
    for (const Step& step : recorder.steps())
        paths.push_back(step.path);
    return paths;
}

Lines other_names(const Recorder& recorder)
{
    Lines names;
    for (const Alias& alias : recorder.recording().aliases)
        names.push_back(alias.path + " = " + alias.target);
    return names;
}

std::string formula_of(const std::string& path, const Recorder& recorder)
{
    for (const Step& step : recorder.steps())
        if (step.path == path)
            return step.formula;
    return "there is no step " + path;
}

Recorder run_of(const MultiHeadWeights& weights, const Heads& options)
{
    return recorded([&](const Trace& trace) { attend(x, weights, options, trace); });
}

} // namespace

TEST_CASE("every layer's steps are the ones that its doc comment lists", "[steps][layers][source]")
{
    Numbers numbers(8);
    const LinearWeights map = random_linear(numbers, 6, 2);
    CHECK(different_rows(table_of("reference/layers/linear.hpp", "linear", 3),
                         recorded([&](const Trace& trace) { linear(x, map, {}, trace); })) == "");
    const LayerNormWeights norm = random_norm(numbers, 6);
    CHECK(different_rows(table_of("reference/layers/layer_norm.hpp", "layer_norm", 7),
                         recorded([&](const Trace& trace) { layer_norm(x, norm, {}, trace); })) == "");
    const FeedForwardWeights fed = random_feed_forward(numbers, 6, 5);
    CHECK(different_rows(table_of("reference/layers/feed_forward.hpp", "feed_forward", 8),
                         recorded([&](const Trace& trace) { feed_forward(x, fed, {}, trace); })) == "");
    const Matrix five = numbers.matrix(3, 5);
    CHECK(different_rows(table_of("reference/layers/multi_head.hpp", "multi_head_attention", 21),
                         recorded([&](const Trace& trace) {
                             multi_head_attention(five, heads(three_features), {}, trace);
                         })) == "");
    CHECK(different_rows(table_of("reference/layers/encoder.hpp", "encoder_layer", 8),
                         recorded([&](const Trace& trace) { encoder_layer(x, layer_weights(), {}, trace); }),
                         "encoder_layer") == "");
    const EncoderWeights stack{{layer_weights(), layer_weights()}};
    CHECK(different_rows(table_of("reference/layers/encoder.hpp", "encoder", 4),
                         recorded([&](const Trace& trace) { encoder(x, stack, {}, trace); }), "encoder") == "");
}

TEST_CASE("grouped-query attention has the steps that its doc comment lists", "[steps][layers][source]")
{
    Numbers numbers(9);
    const MultiHeadWeights weights{
        {numbers.matrix(6, 4)}, {numbers.matrix(6, 2)}, {numbers.matrix(6, 4)}, LinearWeights{numbers.matrix(8, 6)}};
    const Lines table = table_of("reference/layers/multi_head.hpp", "multi_head_attention(const Sources<T>& from", 15);
    CHECK(different_among(table, run_of(weights, {.heads = 2, .positions = HeadPositions::rotary})) == "");
}

TEST_CASE("the doc comments of positions and masks list their steps, with letters for numbers",
          "[steps][layers][position][mask][source]")
{
    using Numbering = std::vector<std::pair<std::string, std::string>>;
    const auto differs = [](const Lines& table, const Numbering& numbering, const auto& run) {
        return different_rows(with_numbers(table, numbering), recorded(run));
    };
    CHECK(differs(table_of("reference/layers/position.hpp", "sinusoidal_positions", 3),
                  {{"PAIRS", "4"}, {"N", "3"}, {"D", "8"}},
                  [](const Trace& trace) { sinusoidal_positions(3, 8, {}, trace); }) == "");
    CHECK(differs(table_of("reference/layers/position.hpp", "learned_positions", 2), {{"N", "2"}},
                  [](const Trace& trace) { learned_positions(x, 2, 0, trace); }) == "");
    CHECK(differs(table_of("reference/layers/rotary.hpp", "rotary", 4), {{"PAIRS", "3"}, {"N", "3"}, {"D", "6"}},
                  [](const Trace& trace) { rotary(x, {}, trace); }) == "");
    CHECK(differs(table_of("reference/layers/position.hpp", "alibi_bias", 1),
                  {{"SLOPE", "0.5"}, {"N", "2"}, {"M", "4"}},
                  [](const Trace& trace) { alibi_bias(2, 4, 0.5, trace); }) == "");
    CHECK(differs(table_of("reference/attention/mask.hpp", "causal_mask", 1), {{"N", "2"}, {"M", "4"}},
                  [](const Trace& trace) { causal_mask(2, 4, Causal::bottom_right, trace); }) == "");
    CHECK(differs(table_of("reference/attention/mask.hpp", "padding_mask", 2), {{"M", "4"}}, [](const Trace& trace) {
              padding_mask(Integers{2, 4}, 4, trace);
          }) == "");
}

TEST_CASE("the doc comment of join_masks lists every step that there can be, in order", "[steps][mask][source]")
{
    const MaskParts parts{.given = BatchMask(BatchMask::shape_type{2, 3, 4}, true),
                          .causal = Causal::bottom_right,
                          .key_lengths = Integers{2, 4},
                          .window = {.left = 2, .right = 1},
                          .chunk = 2};
    const Recorder recorder = recorded([&](const Trace& trace) { join_masks(3, 4, parts, trace); });
    const Lines listed = table_of("reference/attention/mask.hpp", "join_masks", 7), found = kept(recorder);
    REQUIRE(found.size() == 7);
    for (std::size_t i = 0; i < 7; ++i)
        CHECK(listed[i].substr(0, listed[i].find(" |")) == found[i].substr(0, found[i].find(" |")));
    CHECK(with_numbers({listed[4], listed[5]}, {{"N", "3"}, {"M", "4"}, {"LEFT", "2"}, {"RIGHT", "1"}, {"C", "2"}}) ==
          Lines{found[4], found[5]});
    CHECK(listed[6] == "mask | (n, m) | given_mask & causal & padding[:, None, :] & window & chunk");
    CHECK(found[6] == "mask | (b, n, m) | given_mask & causal & padding[:, None, :] & window & chunk");

    const Recorder causal =
        recorded([&](const Trace& trace) { join_masks(3, 3, {.causal = Causal::top_left}, trace); });
    CHECK(paths_of(causal) == Lines{"causal"});
    CHECK(other_names(causal) == Lines{"mask = causal"});
}

TEST_CASE("without biases no formula adds any", "[steps][layers]")
{
    Numbers numbers(4);
    const LinearWeights map = random_linear(numbers, 6, 2, false);
    const Recorder linear_run = recorded([&](const Trace& trace) { linear(x, map, {}, trace); });
    CHECK(paths_of(linear_run) == Lines{"weight", "output"});
    CHECK(formula_of("output", linear_run) == "x @ weight");
    const LayerNormWeights norm = random_norm(numbers, 6, false);
    const Recorder norm_run = recorded([&](const Trace& trace) { layer_norm(x, norm, {0.25}, trace); });
    CHECK(formula_of("output", norm_run) == "normalized * gain");
    CHECK(formula_of("normalized", norm_run) == "(x - mean[..., None]) / sqrt(variance[..., None] + 0.25)");
    const Recorder heads_run = run_of(heads({.has_output_map = false, .is_biased = false}), {.heads = 2});
    CHECK(formula_of("value", heads_run) == "x @ value_weights");
    CHECK(formula_of("merged", heads_run) == "concat(head.0.context, head.1.context, axis=-1)");
    CHECK(other_names(heads_run) == Lines{"output = merged"});
}

TEST_CASE("an activation is in the formula of what it makes", "[steps][layers]")
{
    Numbers numbers(6);
    const FeedForwardWeights weights = random_feed_forward(numbers, 6, 5);
    const auto formula_with = [&](Activation activation) {
        return formula_of("activated",
                          recorded([&](const Trace& trace) { feed_forward(x, weights, {activation}, trace); }));
    };
    CHECK(formula_with(Activation::gelu) == "0.5 * hidden * (1 + erf(hidden / sqrt(2)))");
    CHECK(formula_with(Activation::gelu_tanh) ==
          "0.5 * hidden * (1 + tanh(sqrt(2 / pi) * (hidden + 0.044715 * hidden ** 3)))");
}

TEST_CASE("activate() lists each activation by its name, with its formula", "[steps][layers]")
{
    std::vector<std::vector<std::string>> expected;
    for (const Activation activation : enumerators<Activation>)
        expected.push_back({std::string(name_of(activation)), formula_of(activation, "x")});
    CHECK(step_table(source_file("include/attn/reference/layers/activation.hpp").text, "activate") == expected);
    CHECK(formula_of(Activation::silu, "{}") == "{} * sigmoid({})"); // a name is no placeholder
}

TEST_CASE("heads have their columns, and mask and bias are named once before them", "[steps][layers][mask]")
{
    const Heads options{.heads = 2,
                        .mask = Mask(Mask::shape_type{3, 3}, true),
                        .bias = Matrix(Matrix::shape_type{3, 3}, 1.0),
                        .scale = 0.5};
    const Recorder run = run_of(heads(), options);
    Lines expected{"x",   "query_weights", "query_bias", "query", "key_weights", "key_bias",
                   "key", "value_weights", "value_bias", "value", "mask",        "bias"};
    for (const std::string head : {"head.0.", "head.1."})
        for (const char* step :
             {"queries", "keys", "values", "scores", "scaled", "biased", "masked", "weights", "context"})
            expected.push_back(head + step);
    expected = expected + Lines{"merged", "output_weights", "output_bias", "output"};
    CHECK(different_rows(expected, paths_of(run)) == "");
    CHECK(formula_of("head.1.queries", run) == "query[..., 2:4]");
    CHECK(formula_of("head.1.values", run) == "value[..., 4:8]");
    CHECK(formula_of("head.0.scaled", run) == "scores * 0.5");
    CHECK(formula_of("head.0.masked", run) == "where(mask, biased, -inf)");
    CHECK(other_names(run).empty());
}

TEST_CASE("a causal mask is joined with the given one where the function begins", "[steps][layers][mask]")
{
    const Mask given(Mask::shape_type{3, 3}, true);
    const EncoderOptions causal{.attention = {.causal = Causal::bottom_right}};
    const Recorder run = recorded([&](const Trace& trace) {
        encoder(x, {{layer_weights(), layer_weights()}}, masked(causal, given), trace);
    });
    const Lines paths = paths_of(run);
    CHECK(Lines(paths.begin(), paths.begin() + 4) == Lines{"x", "given_mask", "causal", "mask"});
    CHECK(formula_of("mask", run) == "given_mask & causal");
    CHECK(count_of(run, "mask") == 1);
    CHECK(count_of(run, "masked") == 2);
    CHECK(wrong_steps(run) == Lines{});
}

TEST_CASE("ALiBi has a bias in each head, with its slope", "[steps][layers][alibi]")
{
    const Recorder run = run_of(heads(), {.heads = 2, .positions = HeadPositions::alibi});
    CHECK(formula_of("head.0.bias", run) == "-0.0625 * abs(arange(3)[:, None] + (3 - 3) - arange(3))");
    CHECK(formula_of("head.1.bias", run) == "-0.00390625 * abs(arange(3)[:, None] + (3 - 3) - arange(3))");
    CHECK(formula_of("head.1.biased", run) == "scaled + bias");
}

TEST_CASE("the steps of cross-attention name the memories, and their sizes", "[steps][layers][cross]")
{
    Numbers numbers(7);
    const Matrix memory = numbers.matrix(4, 5), value_memory = numbers.matrix(4, 3);
    const Recorder one = recorded([&](const Trace& trace) {
        multi_head_attention(Sources(x, memory), heads({.d_memory = 5, .d_value = 5}), {}, trace);
    });
    const Lines found = kept(one);
    CHECK(found.at(1) == "memory | (m, d_memory) | ");
    CHECK(found.at(5) == "key_weights | (d_memory, h_d_k) | ");
    CHECK(found.at(7) == "key | (m, h_d_k) | memory @ key_weights + key_bias");
    CHECK(found.at(10) == "value | (m, h_d_v) | memory @ value_weights + value_bias");
    const Recorder two = recorded([&](const Trace& trace) {
        multi_head_attention(Sources(x, memory, value_memory), heads({.d_memory = 5, .d_value = 3}), {}, trace);
    });
    CHECK(kept(two).at(2) == "value_memory | (m, d_value) | ");
    CHECK(kept(two).at(9) == "value_weights | (d_value, h_d_v) | ");
    CHECK(formula_of("value", two) == "value_memory @ value_weights + value_bias");
}

TEST_CASE("pre-norm changes the formulas of the residuals and the inputs of the blocks", "[steps][layers][encoder]")
{
    const Recorder run = recorded(
        [&](const Trace& trace) { encoder_layer(x, layer_weights(), {.placement = NormPlacement::pre}, trace); });
    CHECK(other_names(run) ==
          Lines{"norm1.x = x", "self_attn.x = norm1.output", "norm2.x = residual1", "feed_forward.x = norm2.output"});
    CHECK(formula_of("residual1", run) == "x + self_attn.output");
    CHECK(formula_of("output", run) == "residual1 + feed_forward.output");
    CHECK(count_of(run, "residual2") == 0);
}

TEST_CASE("a stack's norm comes after its layers", "[steps][layers][encoder]")
{
    EncoderWeights weights{{layer_weights()}};
    weights.norm = layer_weights().norm1;
    const Lines names = other_names(recorded([&](const Trace& trace) { encoder(x, weights, {}, trace); }));
    CHECK(names.back() == "output = norm.output");
    CHECK(names.at(names.size() - 2) == "norm.x = layers.0.norm2.output"); // the step that layers.0.output means
}

TEST_CASE("positions say base, layout and first position in their formulas", "[steps][layers][position]")
{
    const Recorder run = recorded([&](const Trace& trace) {
        sinusoidal_positions(3, 5, {.base = 100, .layout = SineLayout::halves, .first = 2}, trace);
    });
    CHECK(formula_of("frequencies", run) == "100 ** (-2 * arange(3) / 5)");
    CHECK(formula_of("angles", run) == "outer(arange(3) + 2, frequencies)");
    CHECK(formula_of("positions", run) == "concat(sin(angles), cos(angles), axis=1)[:, 0:5]");
    const Recorder odd = recorded([&](const Trace& trace) { sinusoidal_positions(3, 5, {}, trace); });
    CHECK(formula_of("positions", odd) == "interleave(sin(angles), cos(angles))[:, 0:5]");
    const Recorder learned = recorded([&](const Trace& trace) { learned_positions(x, 2, 1, trace); });
    CHECK(formula_of("positions", learned) == "table[1:3]");
    const Recorder turned = recorded([&](const Trace& trace) { rotary(x, {.layout = RotaryLayout::halves}, trace); });
    CHECK(formula_of("output", turned) == "concat(x[..., 0:3] * cos(angles) - x[..., 3:6] * sin(angles), "
                                          "x[..., 0:3] * sin(angles) + x[..., 3:6] * cos(angles), axis=-1)");
}
