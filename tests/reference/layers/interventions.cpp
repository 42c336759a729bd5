// What a listener replaces a value by is what the computation goes on with: after any step or input is replaced, nothing but
// that step fails to verify.

#include "attn/reference/attention/with_past.hpp"
#include "attn/reference/layers/decoder_cache.hpp"
#include "attn/reference/layers/talking_heads.hpp"
#include "attn/reference/models/gpt.hpp"
#include "attn/reference/models/greedy_decode.hpp"
#include "attn/reference/models/keras_attention.hpp"
#include "attn/reference/models/llama.hpp"

#include "decoder_examples.hpp"
#include "masked.hpp"
#include "generators.hpp"
#include "step_tables.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::formula;
using namespace attn::test;

namespace {

/// Replaces one step by other numbers: real ones are moved, booleans turned round, whole numbers become 0.
class ReplaceOne final : public Listener {
public:
    explicit ReplaceOne(std::string path) : path_(std::move(path)) {}

private:
    std::optional<Array> on_step(const Step& step) override
    {
        if (step.path != path_)
            return std::nullopt;
        Array other = step.value;
        for (double& value : other.values)
            value = other.type == ElementType::real      ? value + 0.125
                    : other.type == ElementType::boolean ? 1 - value
                                                         : 0;
        return other;
    }

    std::string path_;
};

/// "REPLACED: WRONG" for each step that is wrong although another one was replaced.
template <class Run>
Lines dropped_replacements(const Run& run)
{
    Lines dropped;
    const Recorder plain = recorded(run);
    for (const Step& step : plain.steps()) {
        ReplaceOne replace(step.path);
        Recorder recorder;
        Listeners listeners({&replace, &recorder});
        run(Trace(listeners));
        for (const StepCheck& check : verify(recorder.recording()).checks)
            if (!check.passed() && check.path != step.path)
                dropped.push_back(step.path + ": " + check.path);
    }
    return dropped;
}

} // namespace

TEST_CASE("every replaced step and input of an attention is used", "[attention][interventions]")
{
    const Problem problem = random_problem({}, 1);
    for (const Scoring scoring : all_scorings)
        for (const bool has_mask : {true, false}) {
            CAPTURE(to_string(scoring), has_mask);
            const OptionalMask mask = has_mask ? OptionalMask(problem.mask) : std::nullopt;
            CHECK(dropped_replacements([&](const Trace& trace) {
                      attend(scoring, problem, mask, {.causal = Causal::bottom_right}, trace);
                  }) == Lines{});
        }
    for (const Causal causal : {Causal::top_left, Causal::by_length})
        CHECK(dropped_replacements([&](const Trace& trace) {
                  const MaskParts parts{.causal = causal, .key_lengths = Integers{2, 1}, .window = {1, 1}};
                  join_masks(2, 3, parts, trace);
              }) == Lines{});
    Numbers numbers(12);
    const Matrix query = numbers.matrix(2, 8), key = numbers.matrix(3, 4), value = numbers.matrix(3, 6);
    const PastOf<Tensor4> past{as_heads(numbers.tensor3(2, 2, 2), 1, 2), as_heads(numbers.tensor3(2, 2, 3), 1, 2)};
    const HeadMask mask(HeadMask::shape_type{1, 4, 2, 5}, true);
    const Tensor4 bias = as_heads(numbers.tensor3(4, 2, 5), 1, 4);
    CHECK(dropped_replacements([&](const Trace& trace) {
              packed_attention(query, key, value, {4, 2}, past, {.mask = mask, .bias = bias, .softcap = 2.0}, trace);
          }) == Lines{});
}

TEST_CASE("every replaced step and input of heads is used", "[layers][interventions]")
{
    Numbers numbers(2);
    const Matrix x = numbers.matrix(3, 6), memory = numbers.matrix(4, 6);
    const MultiHeadWeights weights = random_heads(numbers);
    const Heads masked{.heads = 2, .mask = numbers.mask(3, 3), .bias = numbers.matrix(3, 3)};
    CHECK(dropped_replacements([&](const Trace& trace) { attend(x, weights, masked, trace); }) == Lines{});
    CHECK(dropped_replacements([&](const Trace& trace) { attend(x, memory, memory, weights, {.heads = 2}, trace); }) ==
          Lines{});
    for (const HeadPositions positions : {HeadPositions::rotary, HeadPositions::alibi})
        CHECK(dropped_replacements([&](const Trace& trace) {
                  attend(x, weights, {.heads = 2, .positions = positions}, trace);
              }) == Lines{});
    MultiHeadWeights normed = weights;
    normed.query_norms = normed.key_norms = {{numbers.vector(2)}};
    const HeadMask of_heads(HeadMask::shape_type{1, 2, 3, 3}, true);
    const Tensor4 biases = as_heads(numbers.tensor3(2, 3, 3), 1, 2);
    for (const HeadPositions positions : {HeadPositions::none, HeadPositions::rotary})
        CHECK(dropped_replacements([&](const Trace& trace) {
                  const MultiHeadOptions options{
                      .heads = 2, .mask = of_heads, .bias = biases, .softcap = 3.0, .positions = positions};
                  multi_head_attention(x, normed, options, trace);
              }) == Lines{});
    const TalkingHeadsWeights talking{weights, numbers.matrix(2, 2), numbers.matrix(2, 2)};
    CHECK(dropped_replacements([&](const Trace& trace) {
              talking_heads_attention(x, talking, {.causal = Causal::bottom_right}, trace);
          }) == Lines{});
    const KeyValueCache past{numbers.matrix(2, 4), numbers.matrix(2, 8)};
    CHECK(dropped_replacements([&](const Trace& trace) {
              cached_self_attention(x, past, weights, {.heads = 2, .causal = Causal::bottom_right}, trace);
          }) == Lines{});
    const KeyValueCache known{numbers.matrix(4, 4), numbers.matrix(4, 8)};
    CHECK(dropped_replacements(
              [&](const Trace& trace) { cached_cross_attention(x, known, weights, {.heads = 2}, trace); }) == Lines{});
}

TEST_CASE("every replaced step and input of an encoder, a decoder or a Transformer is used", "[layers][interventions]")
{
    Numbers numbers(3);
    const Matrix x = numbers.matrix(3, 6), memory = numbers.matrix(4, 6);
    const TransformerWeights weights = random_transformer(numbers, 1, true);
    for (const NormPlacement placement : placements) {
        const EncoderOptions options{.attention = {.heads = 2, .causal = Causal::bottom_right}, .placement = placement};
        CHECK(dropped_replacements([&](const Trace& trace) {
                  encoder(x, weights.encoder, masked(options, Mask(Mask::shape_type{3, 3}, true)), trace);
              }) == Lines{});
        CHECK(dropped_replacements([&](const Trace& trace) {
                  decoder(x, memory, weights.decoder,
                          masked_decoder(for_decoder(options), {}, Mask(Mask::shape_type{3, 4}, true)), trace);
              }) == Lines{});
        CHECK(dropped_replacements([&](const Trace& trace) {
                  transformer(memory, x, weights,
                              masked_transformer(for_transformer(options), Mask(Mask::shape_type{4, 4}, true), {}, {}),
                              trace);
              }) == Lines{});
    }
    const DecoderCache cache = start_decoder_cache(memory, weights.decoder);
    CHECK(dropped_replacements([&](const Trace& trace) { start_decoder_cache(memory, weights.decoder, trace); }) ==
          Lines{});
    CHECK(dropped_replacements([&](const Trace& trace) { decoder_step(x, cache, weights.decoder, {}, trace); }) ==
          Lines{});
}

TEST_CASE("every replaced step and input of a whole model is used", "[models][interventions]")
{
    Numbers numbers(4);
    const TranslatorWeights translator{numbers.matrix(7, 6), random_transformer(numbers, 1, false)};
    CHECK(dropped_replacements([&](const Trace& trace) {
              predict_next(Integers{3, 5}, Integers{1, 4}, translator, {}, trace);
          }) == Lines{});
    for (const Caching caching : {Caching::none, Caching::keys_and_values})
        CHECK(dropped_replacements([&](const Trace& trace) {
                  greedy_decode(Integers{3, 5}, translator, {.end = 100, .max_tokens = 2, .caching = caching}, trace);
              }) == Lines{});

    LlamaWeights llama_weights{.embedding = numbers.matrix(5, 4)};
    llama_weights.layers.push_back(
        {{numbers.vector(4)},
         {{numbers.matrix(4, 4)}, {numbers.matrix(4, 2)}, {numbers.matrix(4, 2)}, LinearWeights{numbers.matrix(4, 4)}},
         {numbers.vector(4)},
         {{numbers.matrix(4, 3)}, {numbers.matrix(4, 3)}, {numbers.matrix(3, 4)}}});
    llama_weights.norm = {numbers.vector(4)};
    CHECK(dropped_replacements([&](const Trace& trace) {
              llama(Integers{1, 2, 3}, llama_weights, {.heads = 2}, trace);
          }) == Lines{});
    const LlamaCache past = llama(Integers{1, 2}, {}, llama_weights, {.heads = 2}).cache;
    CHECK(dropped_replacements([&](const Trace& trace) {
              llama(Integers{4, 3}, past, llama_weights, {.heads = 2}, trace);
          }) == Lines{});

    GptWeights gpt_weights{numbers.matrix(5, 6), numbers.matrix(4, 6)};
    gpt_weights.layers.push_back(random_encoder_layer(numbers));
    gpt_weights.norm = random_norm(numbers, 6);
    CHECK(dropped_replacements([&](const Trace& trace) {
              gpt(Integers{1, 2, 3}, gpt_weights, {.heads = 2}, trace);
          }) == Lines{});
    CHECK(dropped_replacements([&](const Trace& trace) {
              continue_greedily(Integers{1, 2}, gpt_weights, {.gpt = {.heads = 2}, .max_tokens = 2}, trace);
          }) == Lines{});

    const Matrix x = numbers.matrix(3, 5);
    const KerasAttentionWeights keras{numbers.matrix(5, 4), numbers.matrix(5, 4), numbers.matrix(5, 4)};
    CHECK(dropped_replacements([&](const Trace& trace) {
              keras_attention(x, x, x, {Vector{1, 1, 0}, Vector{1, 1, 0}}, keras,
                              {.heads = 2, .mask_right = true, .penalty = 16}, trace);
          }) == Lines{});
}
