#include "attn/reference/layers/encoder.hpp"

#include "layers_by_hand.hpp"
#include "laws.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

using namespace attn;
using namespace attn::test;

namespace {

Layers options_for(NormPlacement placement, const OptionalMask& mask = {})
{
    return {{.attention = {.heads = 2}, .placement = placement}, mask};
}

EncoderWeights random_encoder(Numbers& numbers, std::size_t layers, bool has_norm)
{
    EncoderWeights weights;
    for (std::size_t i = 0; i < layers; ++i)
        weights.layers.push_back(random_encoder_layer(numbers));
    if (has_norm)
        weights.norm = random_norm(numbers, 6);
    return weights;
}

/// Which of n keys are real, for every query.
Mask first_keys(std::size_t n, std::size_t length)
{
    Mask mask(Mask::shape_type{n, n});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
            mask(i, j) = j < length;
    return mask;
}

} // namespace

TEST_CASE("an encoder layer is attention and feed-forward network, added and normed, by plain loops",
          "[layers][encoder]")
{
    Numbers numbers(1);
    for (const NormPlacement placement : placements)
        for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh})
            for (const std::size_t heads : {1, 2, 3})
                for (const bool is_biased : {true, false}) {
                    CAPTURE(placement == NormPlacement::pre, name_of(activation), heads, is_biased);
                    const Matrix x = numbers.matrix(4, 6);
                    const EncoderLayerWeights weights = random_encoder_layer(numbers, 6, 5, is_biased);
                    const Layers options{{.attention = {.heads = heads},
                                          .feed_forward = {activation},
                                          .norm = {1e-3},
                                          .placement = placement}};
                    CHECK(close(encode(x, weights, options), encoder_layer_by_hand(x, weights, options), 1e-10));
                }
}

TEST_CASE("an encoder layer's mask and scale reach its heads", "[layers][encoder][mask]")
{
    Numbers numbers(2);
    const Matrix x = numbers.matrix(4, 6);
    const EncoderLayerWeights weights = random_encoder_layer(numbers);
    const ByHand by_hand{numbers.mask(4, 4), {}, 0.25};
    for (const NormPlacement placement : placements) {
        Layers options = options_for(placement, by_hand.mask);
        options.attention.scale = by_hand.scale;
        CHECK(close(encode(x, weights, options), encoder_layer_by_hand(x, weights, options, by_hand), 1e-10));
    }
}

TEST_CASE("an encoder layer is post-norm with epsilon 1e-5 and relu unless told otherwise", "[layers][encoder]")
{
    Numbers numbers(3);
    const Matrix x = numbers.matrix(3, 6);
    const EncoderLayerWeights weights = random_encoder_layer(numbers);
    const Layers spelled{{.attention = {.heads = 1},
                          .feed_forward = {Activation::relu},
                          .norm = {1e-5},
                          .placement = NormPlacement::post}};
    CHECK(same_bits(encode(x, weights), encode(x, weights, spelled)));
}

TEST_CASE("a pre-norm layer whose blocks give nothing passes its tokens on, bit for bit", "[layers][encoder]")
{
    Numbers numbers(4);
    const Matrix x = numbers.matrix(3, 6);
    EncoderLayerWeights weights = random_encoder_layer(numbers, 6, 5, false);
    weights.self_attention.output->weight.fill(0);
    weights.feed_forward.output.weight.fill(0);
    CHECK(close(encode(x, weights, options_for(NormPlacement::pre)), x, 0));
    const Matrix normed = norm_by_hand(norm_by_hand(x, weights.norm1, 1e-5), weights.norm2, 1e-5);
    CHECK(close(encode(x, weights, options_for(NormPlacement::post)), normed));
}

TEST_CASE("permuting tokens permutes an encoder layer's outputs", "[layers][encoder]")
{
    Numbers numbers(5);
    const Matrix x = numbers.matrix(4, 6);
    const EncoderLayerWeights weights = random_encoder_layer(numbers);
    const std::vector<std::size_t> order{2, 0, 3, 1};
    for (const NormPlacement placement : placements) {
        const Layers options = options_for(placement);
        CHECK(
            close(encode(rows_by_hand(x, order), weights, options), rows_by_hand(encode(x, weights, options), order)));
        Layers placed = options;
        placed.attention.positions = HeadPositions::alibi;
        CHECK_FALSE(
            close(encode(rows_by_hand(x, order), weights, placed), rows_by_hand(encode(x, weights, placed), order)));
    }
}

TEST_CASE("under a causal mask, a later token changes no earlier output of an encoder", "[layers][encoder][mask]")
{
    Numbers numbers(6);
    const Matrix x = numbers.matrix(5, 6);
    const EncoderWeights weights = random_encoder(numbers, 3, true);
    for (const NormPlacement placement : placements) {
        const Layers causal = options_for(placement, causal_mask(5, 5));
        check_causal(x, [&](const Matrix& tokens) { return encode(tokens, weights, causal); });
        CHECK_FALSE(close(row_by_hand(encode(x, weights, options_for(placement)), 0),
                          row_by_hand(encode(x, weights, causal), 0)));
    }
}

TEST_CASE("what padded tokens are changes nothing at real tokens", "[layers][encoder][mask][batch]")
{
    Numbers numbers(7);
    const EncoderWeights weights = random_encoder(numbers, 2, true);
    const Integers lengths{4, 2, 1};
    const Tensor3 x = numbers.tensor3(3, 4, 6);
    Tensor3 changed = x;
    for (std::size_t b = 0; b < 3; ++b)
        for (std::size_t i = static_cast<std::size_t>(lengths(b)); i < 4; ++i)
            for (std::size_t j = 0; j < 6; ++j)
                changed(b, i, j) = 1e3 * numbers.number();
    const OptionalMask mask = join_masks(4, 4, {.key_lengths = lengths});
    for (const NormPlacement placement : placements) {
        const Layers options = options_for(placement, mask);
        const Tensor3 before = encode(x, weights, options);
        const Tensor3 after = encode(changed, weights, options);
        for (std::size_t b = 0; b < 3; ++b) {
            CAPTURE(b);
            std::vector<std::size_t> real(static_cast<std::size_t>(lengths(b)));
            for (std::size_t i = 0; i < real.size(); ++i)
                real[i] = i;
            CHECK(close(rows_by_hand(sequence_by_hand(before, b), real), rows_by_hand(sequence_by_hand(after, b), real),
                        0));
            // ... and the padded sequence is as good as the short one.
            const Matrix alone = encode(rows_by_hand(sequence_by_hand(x, b), real), weights, options_for(placement));
            CHECK(close(rows_by_hand(sequence_by_hand(before, b), real), alone));
        }
        const Layers open = options_for(placement);
        CHECK_FALSE(close(rows_by_hand(sequence_by_hand(encode(x, weights, open), 1), {0}),
                          rows_by_hand(sequence_by_hand(encode(changed, weights, open), 1), {0})));
    }
}

TEST_CASE("encoding a batch gives what encoding each sequence alone gives", "[layers][encoder][batch]")
{
    Numbers numbers(8);
    const Tensor3 x = numbers.tensor3(3, 4, 6);
    const EncoderWeights weights = random_encoder(numbers, 2, true);
    const Mask one = numbers.mask(4, 4);
    for (const NormPlacement placement : placements)
        for (const HeadPositions positions : {HeadPositions::none, HeadPositions::alibi})
            for (const bool has_mask : {true, false}) {
                Layers options = options_for(placement);
                options.attention.positions = positions;
                if (has_mask)
                    options.mask = one;
                REQUIRE(shape_of(encode(x, weights, options)) == Shape{3, 4, 6});
                check_batch(x, [&](const auto& tokens, auto) { return encode(tokens, weights.layers[0], options); });
                check_batch(x, [&](const auto& tokens, auto) { return encode(tokens, weights, options); });
            }
}

TEST_CASE("an encoder is its layers one after the other, and its norm at the end", "[layers][encoder]")
{
    Numbers numbers(9);
    const Matrix x = numbers.matrix(4, 6);
    const EncoderWeights weights = random_encoder(numbers, 3, true);
    for (const NormPlacement placement : placements) {
        const Layers options = options_for(placement);
        Matrix tokens = x;
        for (const EncoderLayerWeights& layer : weights.layers)
            tokens = encode(tokens, layer, options);
        CHECK(same_bits(encode(x, EncoderWeights{weights.layers}, options), tokens));
        CHECK(close(encode(x, weights, options), norm_by_hand(tokens, *weights.norm, 1e-5)));
    }
}

TEST_CASE("an encoder without layers passes its tokens on", "[layers][encoder]")
{
    const Matrix x = Numbers(10).matrix(2, 6);
    CHECK(same_bits(encode(x, EncoderWeights{}), x));
    const Recorder recorder = recorded([&](const Trace& trace) { encode(x, EncoderWeights{}, {}, trace); });
    CHECK(recorder.recording().aliases.back().target == "x");
}

TEST_CASE("traced encoders give the same bits, and every formula holds", "[layers][encoder][trace]")
{
    Numbers numbers(11);
    const Matrix x = numbers.matrix(4, 6);
    const Tensor3 batch = numbers.tensor3(2, 4, 6);
    const Mask mask = numbers.mask(4, 4);
    for (const NormPlacement placement : placements)
        for (const HeadPositions positions : {HeadPositions::none, HeadPositions::alibi})
            for (const bool has_mask : {true, false})
                for (const Activation activation : {Activation::relu, Activation::gelu_tanh}) {
                    CAPTURE(placement == NormPlacement::pre, static_cast<int>(positions), has_mask);
                    Layers options = options_for(placement);
                    options.attention.positions = positions;
                    options.feed_forward.activation = activation;
                    if (has_mask)
                        options.mask = mask;
                    const EncoderWeights weights = random_encoder(numbers, 2, has_mask);
                    const auto check = [&](const auto& tokens) {
                        traced([&](const Trace& trace) { return encode(tokens, weights, options, trace); });
                        const Recorder layer = traced(
                            [&](const Trace& trace) { return encode(tokens, weights.layers[0], options, trace); });
                        CHECK(layer.steps().back().path ==
                              (placement == NormPlacement::pre ? "output" : "norm2.output"));
                    };
                    check(x);
                    check(batch);
                }
}

TEST_CASE("a mask that all layers share is recorded once, however it is shaped", "[layers][encoder][trace][mask]")
{
    Numbers numbers(12);
    const Tensor3 x = numbers.tensor3(2, 3, 6);
    const EncoderWeights weights = random_encoder(numbers, 3, false);
    for (const AnyMask& mask : {AnyMask(first_keys(3, 2)), AnyMask(BatchMask(BatchMask::shape_type{2, 3, 3}, true))}) {
        const Recorder stack =
            recorded([&](const Trace& trace) { encode(x, weights, options_for(NormPlacement::post, mask), trace); });
        CHECK(count_of(stack, "mask") == 1);
        CHECK(count_of(stack, "masked") == 6);
        CHECK(stack.steps()[1].path == "mask");
        const Recorder layer = recorded(
            [&](const Trace& trace) { encode(x, weights.layers[0], options_for(NormPlacement::post, mask), trace); });
        CHECK(count_of(layer, "mask") == 1);
    }
}

TEST_CASE("an encoder says which options it ran with", "[layers][encoder][trace]")
{
    Numbers numbers(13);
    const Matrix x = numbers.matrix(2, 6);
    const EncoderWeights weights = random_encoder(numbers, 2, false);
    const Layers options{{.attention = {.heads = 3},
                          .feed_forward = {Activation::gelu},
                          .norm = {1e-6},
                          .placement = NormPlacement::pre}};
    StepOptions expected{{"norm", "pre"}, {"heads", "3"}, {"activation", "gelu"}, {"epsilon", "1e-06"}};
    const Recorder layer = recorded([&](const Trace& trace) { encode(x, weights.layers[0], options, trace); });
    CHECK(layer.steps().front().options == expected);
    expected.emplace_back("layers", "2");
    const Recorder stack = recorded([&](const Trace& trace) { encode(x, weights, options, trace); });
    CHECK(stack.steps().front().options == expected);
}

TEST_CASE("an encoder layer refuses tokens, weights and masks that disagree", "[layers][encoder]")
{
    Numbers numbers(14);
    EncoderLayerWeights weights = random_encoder_layer(numbers);
    const Matrix x = numbers.matrix(3, 6);
    for (const NormPlacement placement : placements) {
        const Layers options = options_for(placement);
        CHECK_THROWS_AS(encode(numbers.matrix(3, 5), weights, options), ShapeError);
        CHECK_THROWS_WITH(encode(numbers.matrix(3, 5), weights, options), ContainsSubstring("x (3, 5)"));
        CHECK_THROWS_AS(encode(x, weights, options_for(placement, first_keys(4, 4))), ShapeError);
        CHECK_THROWS_WITH(encode(x, weights, options_for(placement, first_keys(4, 4))),
                          ContainsSubstring("mask (4, 4)"));
        Layers four = options;
        four.attention.heads = 4;
        CHECK_THROWS_WITH(encode(x, weights, four), ContainsSubstring("among 4 heads"));
        EncoderLayerWeights wide = weights;
        wide.norm2 = random_norm(numbers, 7);
        CHECK_THROWS_WITH(encode(x, wide, options), ContainsSubstring("layer_norm: x (3, 6) and gain (7,)"));
        // An output map of another width would be broadcast by the residual sum, or read past its end.
        for (const std::size_t width : {1, 7}) {
            EncoderLayerWeights other = weights;
            other.self_attention.output = random_linear(numbers, 6, width);
            CHECK_THROWS_AS(encode(x, other, options), Error);
            EncoderLayerWeights fed = weights;
            fed.feed_forward.output = random_linear(numbers, 5, width);
            CHECK_THROWS_AS(encode(x, fed, options), Error);
        }
    }
}
