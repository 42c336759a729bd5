#include "attn/engines/fast/encoder.hpp"

#include "interventions.hpp"
#include "drawn_layers.hpp"
#include "masked.hpp"
#include "caught.hpp"
#include "test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/core/shape.hpp"
#include "attn/formula/verify.hpp"

#include <omp.h>

#include <cmath>

using namespace attn;
using namespace attn::formula;
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
                          d_model = draws.one_of<std::size_t>({5, 32, 67}),
                          d_ff = draws.one_of<std::size_t>({1, 31, 96});
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
        return encoder_layer(x, weights, masked(options, mask ? OptionalMask(*mask) : std::nullopt));
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

TEST_CASE("a fast layer computes an activation that has a kernel, and refuses another by its name", "[fast]")
{
    DrawnLayer layer(1);
    for (const Activation activation : enumerators<Activation>) {
        CAPTURE(name_of(activation));
        layer.options.feed_forward.activation = activation;
        if (fast::computes(activation))
            CHECK(roundings_off(layer.run(), layer.expected()) <= 40);
        else
            CHECK_THROWS_WITH(layer.run(), ContainsSubstring("no kernel of the activation " +
                                                             std::string(name_of(activation)) + ", expected one of "));
    }
    CHECK(fast::computes(Activation::relu));
    CHECK_FALSE(fast::computes(static_cast<Activation>(enumerators<Activation>.size())));
}

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

TEST_CASE("a fast encoder layer gives the same bits with any number of threads, with a listener, and in a batch",
          "[fast]")
{
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        CAPTURE(seed);
        DrawnLayer drawn(seed);
        const int threads = omp_get_max_threads();
        omp_set_num_threads(1);
        const std::vector<float> one = drawn.run();
        omp_set_num_threads(3);
        CHECK(one == drawn.run());
        omp_set_num_threads(threads);
        Recorder recorder;
        CHECK(one == drawn.run(Trace(recorder)));

        if (drawn.mask)
            continue;
        DrawnLayer alone(seed);
        alone.x = Tensor3(xt::view(drawn.x, xt::range(0, 1), xt::all(), xt::all()));
        alone.b = 1;
        CHECK(std::vector<float>(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(alone.x.size())) ==
              alone.run());
    }
}

TEST_CASE("a fast encoder is the reference's, layer by layer, with a norm at the end and one sequence", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        Draws draws(seed);
        EncoderWeights weights;
        for (int i = 0; i < 2; ++i)
            weights.layers.push_back(
                {draws.heads(12, 12, 2, 1, 4, true), draws.feed_forward(12, 20, true), draws.norm(12), draws.norm(12)});
        if (draws.draw(2) == 0)
            weights.norm = draws.norm(12);
        EncoderOptions options = draws.options(2);
        options.final_norm = LayerNormOptions{.epsilon = 0x1p-12};
        const Matrix x = draws.matrix(9, 12);

        FloatTokens tokens(x);
        fast::Workspace workspace;
        Recorder recorder;
        fast::encoder(tokens.get(), {}, fast::PackedEncoder(weights), options, tokens.get(), workspace,
                      Trace(recorder));
        CHECK(roundings_off(tokens.numbers, encoder(x, weights, options)) <= 40);
        for (const StepCheck& check : verify(recorder.recording()).checks)
            CHECK(check.message == "");
    }
}

TEST_CASE("lengths hide padding from a fast encoder layer as the reference's mask does", "[fast]")
{
    Draws draws(3);
    const EncoderLayerWeights weights{draws.heads(8, 8, 2, 2, 4, true), draws.feed_forward(8, 12, true), draws.norm(8),
                                      draws.norm(8)};
    const EncoderOptions options{.attention = {.heads = 2}};
    const Tensor3 x = draws.tokens(2, 5, 8);
    const Integers lengths{5, 3};
    FloatTokens tokens(x);
    fast::Workspace workspace;
    fast::encoder_layer(tokens.get(), {.key_lengths = {lengths.data(), 2}}, fast::PackedEncoderLayer(weights), options,
                        tokens.get(), workspace);
    const auto mask = join_masks(5, 5, {.key_lengths = lengths});
    CHECK(roundings_off(tokens.numbers, encoder_layer(x, weights, masked(options, mask))) <= 40);
}

TEST_CASE("a fast encoder layer refuses a listener that replaces a step", "[fast]")
{
    DrawnLayer drawn(4);
    ReplaceStep zero("self_attn.attention.context", [](double) { return 0; });
    CHECK_THROWS_AS(drawn.run(Trace(zero)), std::logic_error);
}

TEST_CASE("a workspace that is given again is not allocated again", "[fast]")
{
    DrawnLayer drawn(4);
    drawn.run();
    const auto places = [&] {
        fast::Workspace& w = drawn.workspace;
        std::vector<const float*> all;
        for (fast::Buffer* buffer :
             {&w.normalized, &w.result, &w.query, &w.key_value, &w.context, &w.hidden, &w.positions, &w.attention})
            all.push_back(buffer->grow(0));
        return all;
    };
    const std::vector<const float*> before = places();
    drawn.run();
    CHECK(places() == before);
}

TEST_CASE("a fast encoder layer refuses what it does not compute, and says which sizes disagree", "[fast]")
{
    Draws draws(1);
    EncoderLayerWeights weights{draws.heads(8, 8, 2, 2, 4, true), draws.feed_forward(8, 12, true), draws.norm(8),
                                draws.norm(8)};
    const fast::PackedEncoderLayer packed(weights);
    std::vector<float> numbers(64);
    fast::Workspace workspace;
    const auto refused = [&](std::size_t d, std::size_t heads, std::size_t n_out = 2) {
        EncoderOptions options;
        options.attention.heads = heads;
        return caught<ShapeError>(
            [&] {
                fast::encoder_layer({numbers.data(), 2, d}, {}, packed, options, {numbers.data(), n_out, d}, workspace);
            },
            "nothing");
    };
    CHECK(refused(8, 2) == "nothing");
    CHECK(refused(7, 2) == "fast::encoder_layer: tokens of 7 and query weights of 8 must agree in d_model");
    CHECK(refused(8, 3) ==
          "fast::encoder_layer: the 8 columns of the query weights can't be divided evenly among 3 heads");
    CHECK(refused(8, 0) ==
          "fast::encoder_layer: the 8 columns of the query weights can't be divided evenly among 0 heads");
    CHECK(refused(8, 2, 3) == "fast::encoder_layer: x of 2 and output of 3 must agree in n");
    const fast::Tokens<float> tokens{numbers.data(), 2, 8}, nowhere{nullptr, 2, 8}, no_batch{nullptr, 2, 8, 3};
    const std::string null = " is null; expected the address of the first number";
    const EncoderOptions options{.attention = {.heads = 2}};
    CHECK_THROWS_WITH(fast::encoder_layer(nowhere, {}, packed, options, tokens, workspace),
                      "fast::encoder_layer: the pointer to the numbers of x (2, 8)" + null);
    CHECK_THROWS_WITH(fast::encoder_layer(no_batch, {}, packed, options, no_batch, workspace),
                      "fast::encoder_layer: the pointer to the numbers of x (3, 2, 8)" + null);
    CHECK_THROWS_WITH(fast::encoder_layer(tokens, {}, packed, options, nowhere, workspace),
                      "fast::encoder_layer: the pointer to the numbers of output (2, 8)" + null);

    weights.self_attention.query_norms = {{draws.rms_norm(4).gain}};
    CHECK_THROWS_WITH(fast::PackedEncoderLayer(weights), ContainsSubstring("a norm of queries or keys"));
    weights.self_attention.query_norms.clear();
    weights.self_attention.sinks = Vector{0.5, 0.25};
    CHECK_THROWS_WITH(fast::PackedEncoderLayer(weights), ContainsSubstring("sinks, which the fast layers do not"));
    weights.self_attention.sinks.reset();
    weights.self_attention.gate = weights.self_attention.value;
    CHECK_THROWS_WITH(fast::PackedEncoderLayer(weights), ContainsSubstring("a gate, which the fast layers do not"));
    weights.self_attention.gate.reset();
    weights.self_attention.output.reset();
    CHECK_THROWS_WITH(fast::PackedEncoderLayer(weights), ContainsSubstring("no output map"));
}
