#include "attn/engines/fast/decoder.hpp"

#include "drawn_layers.hpp"
#include "masked.hpp"
#include "test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/core/shape.hpp"
#include "attn/formula/verify.hpp"

#include <omp.h>

using namespace attn;
using namespace attn::formula;
using namespace attn::test;

namespace {

/// One layer, with a batch, a memory and perhaps its lengths, drawn from a seed.
struct DrawnDecoderLayer {
    explicit DrawnDecoderLayer(std::uint64_t seed) : draws(seed)
    {
        const std::size_t b = draws.one_of<std::size_t>({1, 2}), n = draws.one_of<std::size_t>({1, 5, 61}),
                          m = draws.one_of<std::size_t>({1, 7, 130}), d_model = draws.one_of<std::size_t>({5, 36}),
                          d_memory = draws.one_of<std::size_t>({d_model, d_model + 2}),
                          heads = draws.one_of<std::size_t>({1, 3});
        options = for_decoder(draws.options(heads));
        x = draws.tokens(b, n, d_model);
        memory = draws.tokens(b, m, d_memory);
        weights = {draws.heads(d_model, d_model, heads, 1, 6, true),
                   draws.heads(d_model, d_memory, heads, heads, 4, true),
                   draws.feed_forward(d_model, 33, true),
                   draws.norm(d_model),
                   draws.norm(d_model),
                   draws.norm(d_model)};
        if (draws.draw(2) == 0) {
            lengths = Integers(Integers::shape_type{b});
            for (std::int64_t& length : *lengths)
                length = static_cast<std::int64_t>(draws.draw(m) + 1);
        }
    }

    std::vector<float> run(const Trace& trace = {})
    {
        FloatTokens tokens(x), others(memory);
        fast::Masking to_memory;
        if (lengths)
            to_memory.key_lengths = {lengths->data(), lengths->size()};
        fast::decoder_layer(tokens.get(), others.get(), {}, to_memory, fast::PackedDecoderLayer(weights), options,
                            tokens.get(), workspace, trace);
        return tokens.numbers;
    }

    Tensor3 expected() const
    {
        return decoder_layer(
            x, memory, weights,
            masked_decoder(options, {}, join_masks(x.shape(1), memory.shape(1), {.key_lengths = lengths})));
    }

    Draws draws;
    Tensor3 x, memory;
    DecoderLayerWeights weights;
    DecoderOptions options;
    std::optional<Integers> lengths;
    fast::Workspace workspace;
};

} // namespace

TEST_CASE("a fast decoder layer gives what the reference gives, and each step follows from its formula", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        DrawnDecoderLayer drawn(seed);
        const std::vector<float> found = drawn.run();
        CHECK(roundings_off(found, drawn.expected()) <= 60);
        Recorder recorder;
        CHECK(found == drawn.run(Trace(recorder)));
        for (const StepCheck& check : verify(recorder.recording()).checks)
            CHECK(check.message == "");
    }
}

TEST_CASE("a fast decoder layer gives the same bits with one thread and with three", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        DrawnDecoderLayer drawn(seed);
        const int threads = omp_get_max_threads();
        omp_set_num_threads(1);
        const std::vector<float> one = drawn.run();
        omp_set_num_threads(3);
        CHECK(one == drawn.run());
        omp_set_num_threads(threads);
    }
}

TEST_CASE("a fast decoder layer says where the batches of tokens and memory disagree", "[fast]")
{
    DrawnDecoderLayer drawn(1);
    const fast::PackedDecoderLayer packed(drawn.weights);
    FloatTokens tokens(drawn.x), others(drawn.memory);
    fast::Tokens<float> memory = others.get();
    memory.batch = 7;
    CHECK_THROWS_WITH(
        fast::decoder_layer(tokens.get(), memory, {}, {}, packed, drawn.options, tokens.get(), drawn.workspace),
        ContainsSubstring("sequences and memory of 7 must agree in b"));
    fast::Tokens<float> nowhere = others.get();
    nowhere.numbers = nullptr;
    CHECK_THROWS_WITH(
        fast::decoder_layer(tokens.get(), nowhere, {}, {}, packed, drawn.options, tokens.get(), drawn.workspace),
        ContainsSubstring("the pointer to the numbers of memory ("));
}
