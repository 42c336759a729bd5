#include "attn/reference/layers/decoder.hpp"

#include "decoder_examples.hpp"
#include "layers_by_hand.hpp"
#include "masked.hpp"
#include "laws.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::test;

namespace {

Layers decoder_options(NormPlacement placement, const OptionalMask& mask = {}, const OptionalMask& memory_mask = {})
{
    return {{.attention = {.heads = 2}, .placement = placement}, mask, memory_mask};
}

} // namespace

TEST_CASE("a decoder layer is two attentions and a feed-forward network, added and normed, by plain loops",
          "[layers][decoder]")
{
    Numbers numbers(1);
    for (const NormPlacement placement : placements)
        for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh})
            for (const std::size_t heads : {1, 2, 3})
                for (const bool is_biased : {true, false}) {
                    CAPTURE(placement == NormPlacement::pre, name_of(activation), heads, is_biased);
                    const Matrix x = numbers.matrix(4, 6), memory = numbers.matrix(3, 6);
                    const DecoderLayerWeights weights = random_decoder_layer(numbers, 6, 5, is_biased);
                    const Layers options{{.attention = {.heads = heads},
                                          .feed_forward = {activation},
                                          .norm = {1e-3},
                                          .placement = placement}};
                    CHECK(close(decode(x, memory, weights, options), decoder_layer_by_hand(x, memory, weights, options),
                                1e-10));
                }
}

TEST_CASE("each of a decoder layer's masks reaches its own attention, the scale both", "[layers][decoder][mask]")
{
    Numbers numbers(2);
    const Matrix x = numbers.matrix(4, 6), memory = numbers.matrix(4, 6); // as many, so that masks could be swapped
    const DecoderLayerWeights weights = random_decoder_layer(numbers);
    const ByHand self{numbers.mask(4, 4), {}, 0.25}, cross{numbers.mask(4, 4), {}, 0.25};
    for (const NormPlacement placement : placements) {
        Layers options = decoder_options(placement, self.mask, cross.mask);
        options.attention.scale = 0.25;
        const Matrix found = decode(x, memory, weights, options);
        CHECK(close(found, decoder_layer_by_hand(x, memory, weights, options, self, cross), 1e-10));
        std::swap(options.mask, options.memory_mask);
        CHECK_FALSE(close(decode(x, memory, weights, options), found));
        options.memory_mask = {};
        CHECK(close(decode(x, memory, weights, options),
                    decoder_layer_by_hand(x, memory, weights, options, {cross.mask, {}, 0.25}, {{}, {}, 0.25}), 1e-10));
    }
}

TEST_CASE("norms of queries and keys have one epsilon in both of a decoder layer's attentions", "[layers][decoder]")
{
    Numbers numbers(2);
    DecoderLayerWeights weights = random_decoder_layer(numbers);
    for (MultiHeadWeights* attention : {&weights.self_attention, &weights.cross_attention})
        attention->query_norms = attention->key_norms = {{numbers.vector(3)}};
    const DecoderOptions options{.attention = {.heads = 2, .norm = {.epsilon = 0.5}}};
    const Recorder recorder = recorded([&](const Trace& trace) {
        (void)decoder_layer(numbers.matrix(4, 6), numbers.matrix(3, 6), weights, options, trace);
    });
    CHECK(wrong_steps(recorder) == std::vector<std::string>{});
    for (const std::string attention : {"self_attn", "cross_attn"})
        for (const std::string norm : {"query_norm", "key_norm"})
            CHECK(recorder.recording().at(attention + ".head.1." + norm + ".normalized").formula ==
                  "x / sqrt(mean_square[..., None] + 0.5)");
}

TEST_CASE("each of a decoder layer's biases is added in its own attention, and named once in a stack",
          "[layers][decoder][mask]")
{
    Numbers numbers(3);
    const Matrix x = numbers.matrix(4, 6), memory = numbers.matrix(4, 6); // as many, so that biases could be swapped
    const ByHand self{numbers.mask(4, 4), numbers.matrix(4, 4)}, cross{{}, numbers.matrix(4, 4)};
    const EncoderOptions two_heads{.attention = {.heads = 2}};
    const DecoderOptions options{.attention = {.heads = 2, .mask = self.mask, .bias = self.bias},
                                 .memory_bias = cross.bias};
    const DecoderWeights weights{{random_decoder_layer(numbers), random_decoder_layer(numbers)}};
    const Matrix by_hand = decoder_layer_by_hand(x, memory, weights.layers[0], two_heads, self, cross);
    CHECK(close(decoder_layer(x, memory, weights.layers[0], options), by_hand, 1e-10));
    const Matrix twice = decoder_layer_by_hand(by_hand, memory, weights.layers[1], two_heads, self, cross);
    const Recorder recorder =
        recorded([&](const Trace& trace) { CHECK(close(decoder(x, memory, weights, options, trace), twice, 1e-10)); });
    CHECK(wrong_steps(recorder) == std::vector<std::string>{});
    std::vector<std::string> all;
    for (const Step& step : recorder.steps())
        all.push_back(step.path);
    CHECK(std::ranges::count(all, "bias") == 1);
    CHECK(std::ranges::count(all, "memory_bias") == 1);
    CHECK(std::ranges::none_of(all, [](const std::string& path) { return path.ends_with("attn.bias"); }));
}

TEST_CASE("under a causal mask, a later token changes no earlier output of a decoder", "[layers][decoder][mask]")
{
    Numbers numbers(3);
    const Matrix x = numbers.matrix(5, 6), memory = numbers.matrix(3, 6);
    const DecoderWeights weights = random_decoder(numbers, 3, true);
    for (const NormPlacement placement : placements) {
        const Layers options = decoder_options(placement, causal_mask(5, 5));
        check_causal(x, [&](const Matrix& tokens) { return decode(tokens, memory, weights, options); });
        CHECK_FALSE(close(row_by_hand(decode(x, memory, weights, decoder_options(placement)), 0),
                          row_by_hand(decode(x, memory, weights, options), 0)));
    }
}

TEST_CASE("every output of a decoder depends on the memory but not on its order, and not on masked tokens of it",
          "[layers][decoder][mask]")
{
    Numbers numbers(4);
    const Matrix x = numbers.matrix(4, 6), memory = numbers.matrix(3, 6);
    const DecoderWeights weights = random_decoder(numbers, 2, true);
    Matrix changed = memory;
    changed(2, 1) -= 2;
    Mask first_two(Mask::shape_type{4, 3}, true);
    for (std::size_t i = 0; i < 4; ++i)
        first_two(i, 2) = false;
    for (const NormPlacement placement : placements) {
        const Layers open = decoder_options(placement, causal_mask(4, 4));
        const Matrix before = decode(x, memory, weights, open);
        for (std::size_t i = 0; i < 4; ++i)
            CHECK_FALSE(close(rows_by_hand(before, {i}), rows_by_hand(decode(x, changed, weights, open), {i})));
        CHECK(close(before, decode(x, rows_by_hand(memory, {2, 0, 1}), weights, open)));

        const Layers narrow = decoder_options(placement, causal_mask(4, 4), first_two);
        CHECK(close(decode(x, memory, weights, narrow), decode(x, changed, weights, narrow), 0));
        CHECK(close(decode(x, memory, weights, narrow), decode(x, rows_by_hand(memory, {0, 1}), weights, open)));
    }
}

TEST_CASE("a decoder is its layers one after the other, all on one memory, and its norm at the end",
          "[layers][decoder]")
{
    Numbers numbers(6);
    const Matrix x = numbers.matrix(4, 6), memory = numbers.matrix(3, 6);
    DecoderWeights weights = random_decoder(numbers, 3, true);
    for (const NormPlacement placement : placements) {
        Layers options = decoder_options(placement, causal_mask(4, 4));
        options.final_norm = {.epsilon = 0.5};
        Matrix tokens = x;
        for (const DecoderLayerWeights& layer : weights.layers)
            tokens = decode(tokens, memory, layer, options);
        CHECK(close(decode(x, memory, weights, options), norm_by_hand(tokens, *weights.norm, 0.5)));
        CHECK(same_bits(decode(x, memory, DecoderWeights{weights.layers}, options), tokens));
    }
}

TEST_CASE("tracing a decoder changes no bit, every formula gives what was computed, and masks are recorded once",
          "[layers][decoder][trace]")
{
    Numbers numbers(7);
    const Matrix x = numbers.matrix(3, 6), memory = numbers.matrix(4, 6);
    const Tensor3 batch = numbers.tensor3(2, 3, 6), memories = numbers.tensor3(2, 4, 6);
    const OptionalMask none, own = numbers.mask(3, 3), of_memory = numbers.mask(3, 4);
    for (const NormPlacement placement : placements)
        for (const OptionalMask& mask : {none, own})
            for (const OptionalMask& memory_mask : {none, of_memory}) {
                CAPTURE(placement == NormPlacement::pre, mask.has_value(), memory_mask.has_value());
                const DecoderWeights weights = random_decoder(numbers, 2, mask.has_value());
                const Layers options = decoder_options(placement, mask, memory_mask);
                const auto check = [&](const auto& tokens, const auto& known) {
                    const Recorder stack =
                        traced([&](const Trace& trace) { return decode(tokens, known, weights, options, trace); });
                    CHECK(count_of(stack, "memory_mask") == (memory_mask ? 1 : 0));
                    CHECK(count_of(stack, "mask") == (mask ? 1U : 0U));
                    CHECK(count_of(stack, "memory") == 1);
                    const Recorder layer = traced(
                        [&](const Trace& trace) { return decode(tokens, known, weights.layers[0], options, trace); });
                    CHECK(layer.steps().back().path == (placement == NormPlacement::pre ? "output" : "norm3.output"));
                };
                check(x, memory);
                check(batch, memories);
            }
}

TEST_CASE("a decoder says which options it ran with", "[layers][decoder][trace]")
{
    Numbers numbers(8);
    const Matrix x = numbers.matrix(2, 6), memory = numbers.matrix(3, 6);
    const DecoderWeights weights = random_decoder(numbers, 2, false);
    const Layers options{{.attention = {.heads = 3},
                          .feed_forward = {Activation::gelu},
                          .norm = {1e-6},
                          .placement = NormPlacement::pre}};
    StepOptions expected{{"norm", "pre"}, {"heads", "3"}, {"activation", "gelu"}, {"epsilon", "1e-06"}};
    const Recorder layer = recorded([&](const Trace& trace) { decode(x, memory, weights.layers[0], options, trace); });
    CHECK(layer.steps().front().options == expected);
    expected.emplace_back("layers", "2");
    const Recorder stack = recorded([&](const Trace& trace) { decode(x, memory, weights, options, trace); });
    CHECK(stack.steps().front().options == expected);
}

TEST_CASE("a decoder layer refuses tokens, memories, weights and masks that disagree", "[layers][decoder]")
{
    Numbers numbers(9);
    const DecoderLayerWeights weights = random_decoder_layer(numbers);
    const Matrix x = numbers.matrix(3, 6), memory = numbers.matrix(4, 6);
    for (const NormPlacement placement : placements) {
        const Layers options = decoder_options(placement);
        CHECK_THROWS_WITH(decode(numbers.matrix(3, 5), memory, weights, options), ContainsSubstring("x (3, 5)"));
        CHECK_THROWS_WITH(decode(x, numbers.matrix(4, 5), weights, options),
                          ContainsSubstring("memory (4, 5) and key weights (6, 6)"));
        CHECK_THROWS_WITH(decode(x, memory, weights, decoder_options(placement, Mask(Mask::shape_type{3, 4}, true))),
                          ContainsSubstring("mask (3, 4)"));
        CHECK_THROWS_WITH(
            decode(x, memory, weights, decoder_options(placement, {}, Mask(Mask::shape_type{3, 3}, true))),
            ContainsSubstring("mask (3, 3)"));
        CHECK_THROWS_WITH(decode(numbers.tensor3(2, 3, 6), numbers.tensor3(3, 4, 6), weights, options),
                          ContainsSubstring("decoder: x (2, 3, 6) and memory (3, 4, 6)"));
        // An output map of another width would be broadcast by the residual sum, or read past its end.
        for (const std::size_t width : {1, 7}) {
            DecoderLayerWeights self = weights, cross = weights, fed = weights;
            self.self_attention.output = random_linear(numbers, 6, width);
            cross.cross_attention.output = random_linear(numbers, 6, width);
            fed.feed_forward.output = random_linear(numbers, 5, width);
            CHECK_THROWS_WITH(decode(x, memory, self, options), ContainsSubstring("self_attn.output"));
            CHECK_THROWS_WITH(decode(x, memory, cross, options), ContainsSubstring("cross_attn.output"));
            CHECK_THROWS_WITH(decode(x, memory, fed, options), ContainsSubstring("feed_forward.output"));
        }
    }
}
