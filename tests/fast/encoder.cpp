#include "attn/fast/encoder.hpp"

#include "drawn_layers.hpp"
#include "test.hpp"

#include "attn/formula/verify.hpp"
#include "attn/shape.hpp"
#include "attn/trace_io/recorder.hpp"

#include <omp.h>

#include <cmath>

using namespace attn;
using namespace attn::test;

namespace {

/// One layer, with a batch and perhaps a mask, drawn from a seed.
struct DrawnLayer {
    explicit DrawnLayer(std::uint64_t seed) : draws(seed)
    {
        b = draws.one_of<std::size_t>({1, 1, 2, 3});
        n = draws.one_of<std::size_t>({1, 2, 7, 13, 61, 127});
        const std::size_t d_k = draws.one_of<std::size_t>({2, 8, 10}), groups = draws.one_of<std::size_t>({1, 2}),
                          heads = groups * draws.one_of<std::size_t>({1, 1, 3}),
                          d_model = draws.one_of<std::size_t>({5, 32, 67}), d_ff = draws.one_of<std::size_t>({1, 31, 96});
        const bool is_biased = draws.draw(3) != 0;
        options = draws.options(heads);
        x = draws.tokens(b, n, d_model);
        weights = {draws.heads(d_model, d_model, heads, groups, d_k, is_biased),
                   draws.feed_forward(d_model, d_ff, is_biased), draws.norm(d_model), draws.norm(d_model)};
        if (draws.draw(3) == 0) {
            mask = BatchMask(BatchMask::shape_type{b, n, n});
            for (bool& allowed : *mask)
                allowed = draws.draw(3) != 0;
        }
    }

    std::vector<float> run(const Trace& trace = {})
    {
        FloatTokens tokens(x);
        fast::Masking masking;
        if (mask)
            masking.mask = {mask->data(), {n * n, 0, n}};
        fast::encoder_layer(tokens.get(), masking, fast::PackedEncoderLayer(weights), options, tokens.get(), workspace,
                            trace);
        return tokens.numbers;
    }

    Tensor3 expected() const
    {
        return encoder_layer(x, mask ? std::optional<AnyMask>(*mask) : std::nullopt, weights, options);
    }

    Draws draws;
    std::size_t b, n;
    Tensor3 x;
    EncoderLayerWeights weights;
    EncoderOptions options;
    std::optional<BatchMask> mask;
    fast::Workspace workspace;
};

} // namespace

TEST_CASE("each step of a fast encoder layer follows from its formula in float32, for any sizes and options", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        DrawnLayer drawn(seed);
        Recorder recorder;
        drawn.run(Trace(recorder));
        const Verification verification = verify(recorder.recording());
        for (const StepCheck& check : verification.checks)
            if (!check.passed())
                FAIL("seed " << seed << ": " << check.message);
    }
}

TEST_CASE("a fast encoder layer gives what the reference gives, but for a few roundings in float32", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
        CAPTURE(seed);
        DrawnLayer drawn(seed);
        const double off = roundings_off(drawn.run(), drawn.expected());
        CHECK(off <= 40);
    }
}
