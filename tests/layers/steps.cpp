// Step names are API: goldens, lessons and other people's dumps are compared by them. Each layer's list is pinned here.

#include "examples.hpp"
#include "step_tables.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::test;

namespace {

constexpr HeadSizes three_features{.d_model = 5, .h_d_k = 3, .h_d_v = 3, .d_memory = 5, .d_value = 5};

const Matrix x = Numbers(1).matrix(3, 6);

Lines behind(const std::string& scope, Lines lines)
{
    for (std::string& line : lines)
        line.insert(0, scope);
    return lines;
}

const Lines linear_maps{
    "query_weights | d_model, h_d_k |  | multi_head_attention",
    "query_bias | h_d_k |  | multi_head_attention",
    "query | n, h_d_k | x @ query_weights + query_bias | multi_head_attention",
    "key_weights | d_model, h_d_k |  | multi_head_attention",
    "key_bias | h_d_k |  | multi_head_attention",
    "key | m, h_d_k | x @ key_weights + key_bias | multi_head_attention",
    "value_weights | d_model, h_d_v |  | multi_head_attention",
    "value_bias | h_d_v |  | multi_head_attention",
    "value | m, h_d_v | x @ value_weights + value_bias | multi_head_attention",
};

const Lines output_map{
    "output_weights | h_d_v, d_model |  | multi_head_attention",
    "output_bias | d_model |  | multi_head_attention",
    "output | n, d_model | merged @ output_weights + output_bias | multi_head_attention",
};

const Lines unbiased_maps{
    "query_weights | d_model, h_d_k |  | multi_head_attention",
    "query | n, h_d_k | x @ query_weights | multi_head_attention",
    "key_weights | d_model, h_d_k |  | multi_head_attention",
    "key | m, h_d_k | x @ key_weights | multi_head_attention",
    "value_weights | d_model, h_d_v |  | multi_head_attention",
    "value | m, h_d_v | x @ value_weights | multi_head_attention",
};

/// A head's share of the maps, "0:2" of queries and keys and "0:4" of values.
Lines shares(const std::string& of_keys, const std::string& of_values)
{
    return {
        "queries | n, d_k | query[..., " + of_keys + "] | multi_head_attention",
        "keys | m, d_k | key[..., " + of_keys + "] | multi_head_attention",
        "values | m, d_v | value[..., " + of_values + "] | multi_head_attention",
    };
}

/// What a head does with its share.
Lines attention_of(const std::string& last_score = "scaled")
{
    Lines result{
        "scores | n, m | queries @ keys.T | scaled_dot_product_attention",
        "scaled | n, m | scores / sqrt(keys.shape[-1]) | scaled_dot_product_attention",
    };
    if (last_score == "biased")
        result.emplace_back("biased | n, m | scaled + bias | scaled_dot_product_attention");
    if (last_score == "masked")
        result.emplace_back("masked | n, m | where(mask, scaled, -inf) | scaled_dot_product_attention");
    return result + Lines{
                        "weights | n, m | softmax(" + last_score + ") | scaled_dot_product_attention",
                        "context | n, d_v | weights @ values | scaled_dot_product_attention",
                    };
}

const std::string merging_two = "merged | n, h_d_v | concat(head.0.context, head.1.context, axis=-1) | "
                                "multi_head_attention";

Lines steps_of(const MultiHeadWeights& weights, const MultiHeadOptions& options)
{
    return lines(recorded([&](const Trace& trace) { multi_head_attention(x, weights, options, trace); }));
}

MultiHeadWeights heads(const HeadSizes& sizes = {})
{
    Numbers numbers(2);
    return random_heads(numbers, sizes);
}

Lines rotary_steps(const std::string& packed, const std::string& share)
{
    return {
        "x | n, d | " + packed + "[..., " + share + "] | multi_head_attention",
        "frequencies | pairs | 10000 ** (-2 * arange(1) / 2) | rotary",
        "angles | n, pairs | outer(arange(3), frequencies) | rotary",
        "output | n, d | interleave(x[..., ::2] * cos(angles) - x[..., 1::2] * sin(angles), "
        "x[..., ::2] * sin(angles) + x[..., 1::2] * cos(angles)) | rotary",
    };
}

const Lines feed_forward_steps{
    "hidden_weights | d_model, d_ff |  | feed_forward",
    "hidden_bias | d_ff |  | feed_forward",
    "hidden | n, d_ff | x @ hidden_weights + hidden_bias | feed_forward",
    "activated | n, d_ff | relu(hidden) | feed_forward",
    "output_weights | d_ff, d_model |  | feed_forward",
    "output_bias | d_model |  | feed_forward",
    "output | n, d_model | activated @ output_weights + output_bias | feed_forward",
};

const Lines norm_steps{
    "mean | n | mean(x, axis=-1) | layer_norm",
    "variance | n | mean((x - mean[..., None]) ** 2, axis=-1) | layer_norm",
    "normalized | n, d_model | (x - mean[..., None]) / sqrt(variance[..., None] + 1e-05) | layer_norm",
    "gain | d_model |  | layer_norm",
    "bias | d_model |  | layer_norm",
    "output | n, d_model | normalized * gain + bias | layer_norm",
};

/// Attention with one head of all six features, without its input.
Lines one_head(const std::string& last_score = "scaled")
{
    return linear_maps + behind("head.0.", shares("0:6", "0:6") + attention_of(last_score)) +
           Lines{"merged | n, h_d_v | concat(head.0.context, axis=-1) | multi_head_attention"} + output_map;
}

Lines layer_input(const std::string& formula, const std::string& module = "encoder_layer")
{
    return {"x | n, d_model | " + formula + " | " + module};
}

Lines layer_steps(const std::string& name, const std::string& formula)
{
    return {name + " | n, d_model | " + formula + " | encoder_layer"};
}

/// A post-norm layer of one head, without its input.
Lines post_norm_steps(const std::string& last_score = "scaled")
{
    return behind("self_attn.", layer_input("x") + one_head(last_score)) +
           layer_steps("residual1", "x + self_attn.output") + behind("norm1.", layer_input("residual1") + norm_steps) +
           behind("feed_forward.", layer_input("norm1.output") + feed_forward_steps) +
           layer_steps("residual2", "norm1.output + feed_forward.output") +
           behind("norm2.", layer_input("residual2") + norm_steps) + layer_steps("output", "norm2.output");
}

EncoderLayerWeights layer_weights()
{
    Numbers numbers(3);
    return random_encoder_layer(numbers);
}

/// The lines of a doc comment's table that are there, in the order of the table.
Lines rows_of(const Lines& table, std::size_t expected)
{
    REQUIRE(table.size() == expected);
    return table;
}

} // namespace

TEST_CASE("the steps of a linear map", "[steps][layers]")
{
    Numbers numbers(4);
    const LinearWeights weights = random_linear(numbers, 6, 2);
    CHECK(lines(recorded([&](const Trace& trace) { linear(x, weights, {}, trace); })) ==
          Lines{
              "weight | d_in, d_out |  | ",
              "bias | d_out |  | ",
              "output | n, d_out | x @ weight + bias | ",
          });
    CHECK(lines(recorded([&](const Trace& trace) { linear(x, {weights.weight}, {}, trace); })) ==
          Lines{
              "weight | d_in, d_out |  | ",
              "output | n, d_out | x @ weight | ",
          });
}

TEST_CASE("the steps of a layer norm", "[steps][layers]")
{
    Numbers numbers(5);
    const LayerNormWeights weights = random_norm(numbers, 6);
    CHECK(lines(recorded([&](const Trace& trace) { layer_norm(x, weights, {}, trace); })) ==
          layer_input("", "layer_norm") + norm_steps);
    Lines unbiased = layer_input("", "layer_norm") + norm_steps;
    unbiased.erase(unbiased.end() - 2);
    unbiased.back() = "output | n, d_model | normalized * gain | layer_norm";
    unbiased[3] = "normalized | n, d_model | (x - mean[..., None]) / sqrt(variance[..., None] + 0.25) | layer_norm";
    CHECK(lines(recorded([&](const Trace& trace) { layer_norm(x, {weights.gain}, {0.25}, trace); })) == unbiased);
}

TEST_CASE("the steps of a feed-forward network", "[steps][layers]")
{
    Numbers numbers(6);
    const FeedForwardWeights weights = random_feed_forward(numbers, 6, 5);
    const auto steps_with = [&](Activation activation) {
        return lines(recorded([&](const Trace& trace) { feed_forward(x, weights, {activation}, trace); }));
    };
    Lines expected = layer_input("", "feed_forward") + feed_forward_steps;
    CHECK(steps_with(Activation::relu) == expected);
    expected[4] = "activated | n, d_ff | 0.5 * hidden * (1 + erf(hidden / sqrt(2))) | feed_forward";
    CHECK(steps_with(Activation::gelu) == expected);
    expected[4] = "activated | n, d_ff | 0.5 * hidden * (1 + tanh(sqrt(2 / pi) * (hidden + 0.044715 * hidden ** 3))) | "
                  "feed_forward";
    CHECK(steps_with(Activation::gelu_tanh) == expected);
}

TEST_CASE("the steps of multi-head attention with two heads", "[steps][layers]")
{
    CHECK(steps_of(heads(), {.heads = 2}) == layer_input("", "multi_head_attention") + linear_maps +
                                                 behind("head.0.", shares("0:2", "0:4") + attention_of()) +
                                                 behind("head.1.", shares("2:4", "4:8") + attention_of()) +
                                                 Lines{merging_two} + output_map);
}

TEST_CASE("the steps of multi-head attention without an output map or biases", "[steps][layers]")
{
    CHECK(steps_of(heads({.has_output_map = false, .is_biased = false}), {.heads = 2}) ==
          layer_input("", "multi_head_attention") + unbiased_maps +
              behind("head.0.", shares("0:2", "0:4") + attention_of()) +
              behind("head.1.", shares("2:4", "4:8") + attention_of()) +
              Lines{merging_two, "output | n, h_d_v | merged | multi_head_attention"});
}

TEST_CASE("the steps of multi-head attention with a mask", "[steps][layers][mask]")
{
    CHECK(steps_of(heads(), {.heads = 2, .mask = Mask(Mask::shape_type{3, 3}, true)}) ==
          layer_input("", "multi_head_attention") + linear_maps + Lines{"mask | n, m |  | multi_head_attention"} +
              behind("head.0.", shares("0:2", "0:4") + attention_of("masked")) +
              behind("head.1.", shares("2:4", "4:8") + attention_of("masked")) + Lines{merging_two} + output_map);
}

TEST_CASE("the steps of multi-head attention with a bias and a scale", "[steps][layers]")
{
    Lines head = attention_of("biased");
    head[1] = "scaled | n, m | scores * 0.5 | scaled_dot_product_attention";
    CHECK(steps_of(heads(), {.heads = 2, .bias = Matrix(Matrix::shape_type{3, 3}, 1.0), .scale = 0.5}) ==
          layer_input("", "multi_head_attention") + linear_maps + Lines{"bias | n, m |  | multi_head_attention"} +
              behind("head.0.", shares("0:2", "0:4") + head) + behind("head.1.", shares("2:4", "4:8") + head) +
              Lines{merging_two} + output_map);
}

TEST_CASE("the steps of multi-head attention with rotary positions", "[steps][layers][rotary]")
{
    const auto head = [](const std::string& of_keys, const std::string& of_values) {
        return behind("rotary_query.", rotary_steps("query", of_keys)) +
               Lines{"queries | n, d_k | rotary_query.output | multi_head_attention"} +
               behind("rotary_key.", rotary_steps("key", of_keys)) +
               Lines{"keys | m, d_k | rotary_key.output | multi_head_attention",
                     "values | m, d_v | value[..., " + of_values + "] | multi_head_attention"} +
               attention_of();
    };
    CHECK(steps_of(heads(), {.heads = 2, .positions = HeadPositions::rotary}) ==
          layer_input("", "multi_head_attention") + linear_maps + behind("head.0.", head("0:2", "0:4")) +
              behind("head.1.", head("2:4", "4:8")) + Lines{merging_two} + output_map);
}

TEST_CASE("the steps of multi-head attention with ALiBi", "[steps][layers][alibi]")
{
    const auto bias = [](const std::string& slope) {
        return Lines{"bias | n, m | -" + slope + " * abs(arange(3)[:, None] + (3 - 3) - arange(3)) | " +
                     "multi_head_attention"};
    };
    CHECK(steps_of(heads(), {.heads = 2, .positions = HeadPositions::alibi}) ==
          layer_input("", "multi_head_attention") + linear_maps +
              behind("head.0.", shares("0:2", "0:4") + bias("0.0625") + attention_of("biased")) +
              behind("head.1.", shares("2:4", "4:8") + bias("0.00390625") + attention_of("biased")) +
              Lines{merging_two} + output_map);
}

TEST_CASE("the steps of cross-attention name the memories, and their sizes", "[steps][layers][cross]")
{
    Numbers numbers(7);
    const Matrix memory = numbers.matrix(4, 5);
    const Matrix value_memory = numbers.matrix(4, 3);
    const Lines inside = behind("head.0.", shares("0:4", "0:8") + attention_of()) +
                         Lines{"merged | n, h_d_v | concat(head.0.context, axis=-1) | multi_head_attention"} +
                         output_map;
    Lines maps = linear_maps;
    maps[3] = "key_weights | d_memory, h_d_k |  | multi_head_attention";
    maps[5] = "key | m, h_d_k | memory @ key_weights + key_bias | multi_head_attention";
    maps[6] = "value_weights | d_memory, h_d_v |  | multi_head_attention";
    maps[8] = "value | m, h_d_v | memory @ value_weights + value_bias | multi_head_attention";
    const Lines inputs =
        layer_input("", "multi_head_attention") + Lines{"memory | m, d_memory |  | multi_head_attention"};
    CHECK(lines(recorded([&](const Trace& trace) {
              multi_head_attention(x, memory, heads({.d_memory = 5, .d_value = 5}), {}, trace);
          })) == inputs + maps + inside);
    maps[6] = "value_weights | d_value, h_d_v |  | multi_head_attention";
    maps[8] = "value | m, h_d_v | value_memory @ value_weights + value_bias | multi_head_attention";
    CHECK(lines(recorded([&](const Trace& trace) {
              multi_head_attention(x, memory, value_memory, heads({.d_memory = 5, .d_value = 3}), {}, trace);
          })) == inputs + Lines{"value_memory | m, d_value |  | multi_head_attention"} + maps + inside);
}

TEST_CASE("the steps of a post-norm encoder layer", "[steps][layers][encoder]")
{
    CHECK(lines(recorded([&](const Trace& trace) { encoder_layer(x, layer_weights(), {}, trace); })) ==
          layer_input("") + post_norm_steps());
}

TEST_CASE("the steps of an encoder layer with a mask", "[steps][layers][encoder][mask]")
{
    const EncoderOptions options{.attention = {.mask = Mask(Mask::shape_type{3, 3}, true)}};
    CHECK(lines(recorded([&](const Trace& trace) { encoder_layer(x, layer_weights(), options, trace); })) ==
          layer_input("") + Lines{"mask | n, m |  | encoder_layer"} + post_norm_steps("masked"));
}

TEST_CASE("the steps of a pre-norm encoder layer", "[steps][layers][encoder]")
{
    const EncoderOptions options{.placement = NormPlacement::pre};
    CHECK(lines(recorded([&](const Trace& trace) { encoder_layer(x, layer_weights(), options, trace); })) ==
          layer_input("") + behind("norm1.", layer_input("x") + norm_steps) +
              behind("self_attn.", layer_input("norm1.output") + one_head()) +
              layer_steps("residual1", "x + self_attn.output") +
              behind("norm2.", layer_input("residual1") + norm_steps) +
              behind("feed_forward.", layer_input("norm2.output") + feed_forward_steps) +
              layer_steps("output", "residual1 + feed_forward.output"));
}

TEST_CASE("the steps of an encoder of two layers, with and without a norm at the end", "[steps][layers][encoder]")
{
    EncoderWeights weights{{layer_weights(), layer_weights()}};
    const Lines stack = layer_input("", "encoder") +
                        behind("layers.0.", layer_input("x", "encoder") + post_norm_steps()) +
                        behind("layers.1.", layer_input("layers.0.output", "encoder") + post_norm_steps());
    CHECK(lines(recorded([&](const Trace& trace) { encoder(x, weights, {}, trace); })) ==
          stack + Lines{"output | n, d_model | layers.1.output | encoder"});
    weights.norm = layer_weights().norm1;
    CHECK(lines(recorded([&](const Trace& trace) { encoder(x, weights, {}, trace); })) ==
          stack + behind("norm.", layer_input("layers.1.output", "encoder") + norm_steps) +
              Lines{"output | n, d_model | norm.output | encoder"});
}

TEST_CASE("the steps of positions", "[steps][layers][position]")
{
    CHECK(lines(recorded([&](const Trace& trace) {
              sinusoidal_positions(3, 5, {.base = 100, .layout = SineLayout::halves, .first = 2}, trace);
          })) == Lines{
                     "frequencies | pairs | 100 ** (-2 * arange(3) / 5) | ",
                     "angles | n, pairs | outer(arange(3) + 2, frequencies) | ",
                     "positions | n, d | concat(sin(angles), cos(angles), axis=1)[:, 0:5] | ",
                 });
    CHECK(lines(recorded([&](const Trace& trace) { sinusoidal_positions(3, 5, {}, trace); })).back() ==
          "positions | n, d | interleave(sin(angles), cos(angles))[:, 0:5] | ");
    CHECK(lines(recorded([&](const Trace& trace) { learned_positions(x, 2, 1, trace); })) ==
          Lines{
              "table | n_max, d |  | ",
              "positions | n, d | table[1:3] | ",
          });
    CHECK(lines(recorded([&](const Trace& trace) { rotary(x, {.layout = RotaryLayout::halves}, trace); })).back() ==
          "output | n, d | concat(x[..., 0:3] * cos(angles) - x[..., 3:6] * sin(angles), "
          "x[..., 0:3] * sin(angles) + x[..., 3:6] * cos(angles), axis=-1) | rotary");
    CHECK(lines(recorded([&](const Trace& trace) { alibi_bias(2, 4, 0.5, trace); })) ==
          Lines{"bias | n, m | -0.5 * abs(arange(2)[:, None] + (4 - 2) - arange(4)) | "});
}

TEST_CASE("every layer's steps are the ones that its doc comment lists", "[steps][layers][source]")
{
    Numbers numbers(8);
    const LinearWeights map = random_linear(numbers, 6, 2);
    CHECK(rows_of(promised("layers/linear.hpp", "linear"), 3) ==
          kept(recorded([&](const Trace& trace) { linear(x, map, {}, trace); })));
    const LayerNormWeights norm = random_norm(numbers, 6);
    CHECK(rows_of(promised("layers/layer_norm.hpp", "layer_norm"), 7) ==
          kept(recorded([&](const Trace& trace) { layer_norm(x, norm, {}, trace); })));
    const FeedForwardWeights fed = random_feed_forward(numbers, 6, 5);
    CHECK(rows_of(promised("layers/feed_forward.hpp", "feed_forward"), 8) ==
          kept(recorded([&](const Trace& trace) { feed_forward(x, fed, {}, trace); })));
    const Matrix five = numbers.matrix(3, 5);
    CHECK(rows_of(promised("layers/multi_head.hpp", "multi_head_attention"), 21) ==
          kept(recorded([&](const Trace& trace) { multi_head_attention(five, heads(three_features), {}, trace); })));
}

TEST_CASE("the doc comments of encoders list the steps that are their own", "[steps][layers][encoder][source]")
{
    CHECK(rows_of(promised("layers/encoder.hpp", "encoder_layer"), 8) ==
          kept(recorded([&](const Trace& trace) { encoder_layer(x, layer_weights(), {}, trace); }), "encoder_layer"));
    const EncoderWeights weights{{layer_weights(), layer_weights()}};
    CHECK(rows_of(promised("layers/encoder.hpp", "encoder"), 4) ==
          kept(recorded([&](const Trace& trace) { encoder(x, weights, {}, trace); }), "encoder"));
}

TEST_CASE("the doc comments of positions and masks list their steps, with letters for numbers",
          "[steps][layers][position][mask][source]")
{
    CHECK(with_numbers(rows_of(promised("layers/position.hpp", "sinusoidal_positions"), 3),
                       {{"PAIRS", "4"}, {"N", "3"}, {"D", "8"}}) ==
          kept(recorded([&](const Trace& trace) { sinusoidal_positions(3, 8, {}, trace); })));
    CHECK(with_numbers(rows_of(promised("layers/position.hpp", "learned_positions"), 2), {{"N", "2"}}) ==
          kept(recorded([&](const Trace& trace) { learned_positions(x, 2, 0, trace); })));
    CHECK(
        with_numbers(rows_of(promised("layers/position.hpp", "rotary"), 4), {{"PAIRS", "3"}, {"N", "3"}, {"D", "6"}}) ==
        kept(recorded([&](const Trace& trace) { rotary(x, {}, trace); })));
    CHECK(with_numbers(rows_of(promised("layers/position.hpp", "alibi_bias"), 1),
                       {{"SLOPE", "0.5"}, {"N", "2"}, {"M", "4"}}) ==
          kept(recorded([&](const Trace& trace) { alibi_bias(2, 4, 0.5, trace); })));
    CHECK(with_numbers(rows_of(promised("attention/mask.hpp", "causal_mask"), 1), {{"N", "2"}, {"M", "4"}}) ==
          kept(recorded([&](const Trace& trace) { causal_mask(2, 4, Causal::bottom_right, trace); })));
    CHECK(with_numbers(rows_of(promised("attention/mask.hpp", "padding_mask"), 2), {{"M", "4"}}) ==
          kept(recorded([&](const Trace& trace) {
              padding_mask({2, 4}, 4, trace);
          })));
}

TEST_CASE("the doc comment of join_masks lists every step that it may take, in order", "[steps][mask][source]")
{
    const MaskParts parts{BatchMask(BatchMask::shape_type{2, 3, 4}, true), Causal::bottom_right, {2, 4}};
    const Recorder recorder = recorded([&](const Trace& trace) { join_masks(3, 4, parts, trace); });
    const Lines listed = rows_of(promised("attention/mask.hpp", "join_masks"), 5);
    const Lines found = kept(recorder);
    REQUIRE(found.size() == 5);
    for (std::size_t i = 0; i < 5; ++i)
        CHECK(listed[i].substr(0, listed[i].find(" |")) == found[i].substr(0, found[i].find(" |")));
    CHECK(listed[4] == "mask | (n, m) | given_mask & causal & padding[:, None, :]");
    CHECK(found[4] == "mask | (b, n, m) | given_mask & causal & padding[:, None, :]");
}
