#include "attn/reference/models/transformer.hpp"

#include "reference/layers/decoder_examples.hpp"
#include "masked.hpp"
#include "test.hpp"

#include "attn/reference/layers/activation.hpp"

using namespace attn;
using namespace attn::test;

TEST_CASE("a Transformer is a decoder of the target on the encoder's output for the source", "[layers][transformer]")
{
    Numbers numbers(1);
    const Matrix source = numbers.matrix(5, 6), target = numbers.matrix(3, 6);
    for (const NormPlacement placement : {NormPlacement::post, NormPlacement::pre}) {
        const TransformerWeights weights = random_transformer(numbers, 2, true);
        const TransformerOptions options{.attention = {.heads = 3},
                                         .feed_forward = {Activation::gelu},
                                         .norm = {1e-3},
                                         .placement = placement,
                                         .final_norm = LayerNormOptions{0.5}};
        const Mask of_source = numbers.mask(5, 5), of_target = causal_mask(3, 3), of_memory = numbers.mask(3, 5);
        const Matrix memory = encoder(source, weights.encoder, masked(encoder_options(options), of_source));
        const Matrix expected =
            decoder(target, memory, weights.decoder, masked_decoder(decoder_options(options), of_target, of_memory));
        TransformerOptions causal = options;
        causal.attention.causal = Causal::bottom_right;
        CHECK(same_bits(transformer(source, target, weights, masked_transformer(causal, of_source, {}, of_memory)),
                        expected));
        const Recorder steps = recorded([&](const Trace& trace) {
            CHECK(same_bits(transformer(source, target, weights,
                                        masked_transformer(options, of_source, of_target, of_memory), trace),
                            expected));
        });
        CHECK(wrong_steps(steps) == std::vector<std::string>{});
        CHECK(count_of(steps, "memory_mask") == 1);
        CHECK(count_of(steps, "source_mask") == 1);
        CHECK(count_of(steps, "target_mask") == 1);
    }
}
