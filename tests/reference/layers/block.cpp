#include "attn/reference/layers/block.hpp"

#include "examples.hpp"
#include "step_tables.hpp"
#include "test.hpp"

#include "attn/reference/layers/activation.hpp"
#include "attn/reference/layers/encoder.hpp"
#include "attn/reference/models/language_model.hpp"
#include "attn/reference/models/llama.hpp"

using namespace attn;
using namespace attn::test;

namespace {

/// The blocks of these layers, as a description has them.
BlockWeights block_of(const LlamaLayerWeights& layer)
{
    const auto& [norm1, self_attention, norm2, feed_forward] = layer;
    return {.norm1 = LayerNormWeights{norm1.gain},
            .post_norm1 = {},
            .self_attention = self_attention,
            .norm2 = LayerNormWeights{norm2.gain},
            .post_norm2 = {},
            .feed_forward = feed_forward};
}

BlockWeights block_of(const EncoderLayerWeights& layer)
{
    const auto& [self_attention, feed_forward, norm1, norm2] = layer;
    return {.norm1 = norm1,
            .post_norm1 = {},
            .self_attention = self_attention,
            .norm2 = norm2,
            .post_norm2 = {},
            .feed_forward = feed_forward};
}

BlockDescription like_llama(std::size_t heads)
{
    return {.norm = {.kind = NormKind::rms},
            .attention = {.heads = heads, .positions = HeadPositions::rotary},
            .activation = Activation::silu};
}

LlamaLayerWeights llama_weights(Numbers& numbers)
{
    return {.norm1 = {numbers.vector(6)},
            .self_attention = {{numbers.matrix(6, 8)},
                               {numbers.matrix(6, 4)},
                               {numbers.matrix(6, 4)},
                               LinearWeights{numbers.matrix(8, 6)}},
            .norm2 = {numbers.vector(6)},
            .feed_forward = {{numbers.matrix(6, 5)}, {numbers.matrix(6, 5)}, {numbers.matrix(5, 6)}}};
}

} // namespace

TEST_CASE("a described block has the same bits as the layers that are written out", "[layers][block]")
{
    Numbers numbers(31);
    const Matrix x = numbers.matrix(5, 6);
    const OptionalMask mask = causal_mask(5, 5);
    const LlamaLayerWeights llama = llama_weights(numbers);
    CHECK(same_bits(decoder_block(x, block_of(llama), like_llama(4), mask),
                    llama_layer(x, llama, {.heads = 4, .mask = mask})));

    const EncoderLayerWeights encoder{random_heads(numbers, {6, 6, 6, 6, 6}),
                                      random_feed_forward(numbers, 6, 7),
                                      {numbers.vector(6), numbers.vector(6)},
                                      {numbers.vector(6), numbers.vector(6)}};
    for (const auto& [placement, places] :
         {std::pair(NormPlacement::pre, NormPlaces::before), std::pair(NormPlacement::post, NormPlaces::after_sum)})
        CHECK(same_bits(decoder_block(x, block_of(encoder), {.places = places, .attention = {.heads = 2}}, mask),
                        encoder_layer(x, encoder, {.attention = {.heads = 2, .mask = mask}, .placement = placement})));
}

TEST_CASE("a block with a residual scale of 0 gives its input back, in sequence or in parallel", "[layers][block]")
{
    Numbers numbers(32);
    const Matrix x = numbers.matrix(4, 6);
    for (const bool is_parallel : {false, true}) {
        BlockDescription description = like_llama(4);
        description.is_parallel = is_parallel;
        description.residual_scale = 0;
        CHECK(same_bits(decoder_block(x, block_of(llama_weights(numbers)), description), x));
    }
}

TEST_CASE("parallel sublayers share the first norm where there is no second", "[layers][block]")
{
    Numbers numbers(33);
    const Matrix x = numbers.matrix(4, 6);
    BlockWeights two = block_of(llama_weights(numbers)), one = two;
    two.norm2 = two.norm1;
    one.norm2.reset();
    BlockDescription description = like_llama(4);
    description.is_parallel = true;
    CHECK(same_bits(decoder_block(x, one, description), decoder_block(x, two, description)));
    description.is_parallel = false;
    CHECK_THROWS_WITH(decoder_block(x, one, description), ContainsSubstring("the weights have no norm2"));
}

TEST_CASE("a block takes no norm that its description does not have", "[layers][block]")
{
    Numbers numbers(34);
    BlockWeights weights = block_of(llama_weights(numbers));
    weights.norm1->bias = numbers.vector(6);
    CHECK_THROWS_WITH(decoder_block(numbers.matrix(4, 6), weights, like_llama(4)),
                      ContainsSubstring("an RMS norm has no bias"));
}

TEST_CASE("the doc comments of described models list the steps that are their own", "[steps][layers][block][source]")
{
    Numbers numbers(35);
    const BlockWeights block = block_of(llama_weights(numbers));
    const Recorder layer =
        recorded([&](const Trace& trace) { decoder_block(numbers.matrix(3, 6), block, like_llama(4), {}, trace); });
    const Lines rows = promised("reference/layers/block.hpp", "decoder_block");
    CHECK(different_rows(rows, layer, "decoder_block") == "");

    const LanguageModelWeights weights{.embedding = numbers.matrix(5, 6),
                                       .positions = {},
                                       .embedding_norm = {},
                                       .layers = {block},
                                       .norm = LayerNormWeights{numbers.vector(6)},
                                       .output = {}};
    const LanguageModelDescription description{.layers = {like_llama(4)}, .norm = {.kind = NormKind::rms}};
    const Recorder model = recorded([&](const Trace& trace) {
        (void)language_model(Integers{1, 2, 3}, weights, description, trace);
    });
    const Lines listed = with_numbers(promised("reference/models/language_model.hpp", "language_model"), {{"N", "3"}});
    CHECK(different_rows(listed, model, "language_model") == "");
}
