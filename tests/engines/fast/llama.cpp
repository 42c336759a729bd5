#include "attn/engines/fast/llama.hpp"

#include "interventions.hpp"
#include "drawn_layers.hpp"
#include "test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/core/shape.hpp"
#include "attn/formula/verify.hpp"

#include <omp.h>

#include <algorithm>

using namespace attn;
using namespace attn::formula;
using namespace attn::test;

namespace {

/// A decoder and ids, drawn from a seed.
struct DrawnLlama {
    explicit DrawnLlama(std::uint64_t seed) : draws(seed)
    {
        const std::size_t vocabulary = draws.one_of<std::size_t>({7, 64}), d_model = draws.one_of<std::size_t>({6, 48}),
                          groups = draws.one_of<std::size_t>({1, 2}), d_k = draws.one_of<std::size_t>({2, 12}),
                          heads = groups * draws.one_of<std::size_t>({1, 2}),
                          d_ff = draws.one_of<std::size_t>({5, 100}), n = draws.one_of<std::size_t>({2, 5, 70});
        const bool is_biased = draws.draw(3) == 0;
        options = {.heads = heads};
        options.rotary.layout = draws.one_of({RotaryLayout::pairs, RotaryLayout::halves});
        weights.embedding = draws.matrix(vocabulary, d_model);
        for (int i = 0; i < 2; ++i)
            weights.layers.push_back(
                {.norm1 = draws.rms_norm(d_model),
                 .self_attention = draws.heads(d_model, d_model, heads, groups, d_k, is_biased),
                 .norm2 = draws.rms_norm(d_model),
                 .feed_forward = {draws.map(d_model, d_ff, is_biased), draws.map(d_model, d_ff, is_biased),
                                  draws.map(d_ff, d_model, is_biased)}});
        weights.norm = draws.rms_norm(d_model);
        if (draws.draw(2) == 0)
            weights.output = draws.map(d_model, vocabulary, false).weight;
        for (std::size_t i = 0; i < n; ++i)
            ids.push_back(static_cast<std::int64_t>(draws.draw(vocabulary)));
    }

    /// The logits of all ids, given in parts of these sizes, the last of which is what is left.
    std::vector<float> run(const std::vector<std::size_t>& parts = {}, const Trace& last = {})
    {
        const std::size_t vocabulary = weights.embedding.shape(0);
        const fast::PackedLlama packed(weights);
        std::vector<float> logits(ids.size() * vocabulary);
        const std::span<const std::int64_t> all(ids);
        const std::span<float> rows(logits);
        fast::LlamaCache cache;
        const auto step = [&](std::size_t count, const Trace& trace) {
            const std::size_t first = cache.length();
            fast::llama(all.subspan(first, count), cache, packed, options,
                        rows.subspan(first * vocabulary, count * vocabulary), workspace, trace);
        };
        for (const std::size_t part : parts)
            step(part, {});
        step(ids.size() - cache.length(), last);
        return logits;
    }

    Matrix expected() const
    {
        Integers numbers(Integers::shape_type{ids.size()});
        std::ranges::copy(ids, numbers.begin());
        return llama(numbers, weights, options);
    }

    Draws draws;
    LlamaWeights weights;
    LlamaOptions options;
    std::vector<std::int64_t> ids;
    fast::Workspace workspace;
};

void check_steps(DrawnLlama& drawn, const std::vector<std::size_t>& parts)
{
    Recorder recorder;
    drawn.run(parts, Trace(recorder));
    const Verification verification = verify(recorder.recording());
    for (const StepCheck& check : verification.checks)
        if (!check.passed())
            FAIL(check.message);
}

} // namespace

TEST_CASE("each step of a fast decoder follows from its formula in float32, with a cache and without", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        CAPTURE(seed);
        DrawnLlama drawn(seed);
        check_steps(drawn, {});
        check_steps(drawn, {1});
        check_steps(drawn, std::vector<std::size_t>(drawn.ids.size() - 1, 1));
    }
}

TEST_CASE("a fast decoder gives the reference's logits, all tokens at once, in parts, and token by token", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 80; ++seed) {
        CAPTURE(seed);
        DrawnLlama drawn(seed);
        const Matrix expected = drawn.expected();
        CHECK(roundings_off(drawn.run(), expected) <= 60);
        CHECK(roundings_off(drawn.run({1}), expected) <= 60);
        CHECK(roundings_off(drawn.run(std::vector<std::size_t>(drawn.ids.size() - 1, 1)), expected) <= 60);
    }
}

TEST_CASE("a fast decoder gives the same bits with one thread and with three, and with a listener", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        CAPTURE(seed);
        DrawnLlama drawn(seed);
        const int threads = omp_get_max_threads();
        omp_set_num_threads(1);
        const std::vector<float> one = drawn.run({1});
        omp_set_num_threads(3);
        const std::vector<float> three = drawn.run({1});
        omp_set_num_threads(threads);
        Recorder recorder;
        CHECK(one == three);
        CHECK(one == drawn.run({1}, Trace(recorder)));
    }
}

TEST_CASE("a fast decoder refuses a listener that replaces a step", "[fast]")
{
    DrawnLlama drawn(1);
    ReplaceStep zero("embedded", [](double) { return 0; });
    CHECK_THROWS_AS(drawn.run({}, Trace(zero)), std::logic_error);
}

TEST_CASE("a fast decoder says which id is no row of the embedding, and which room is too small", "[fast]")
{
    DrawnLlama drawn(1);
    const fast::PackedLlama packed(drawn.weights);
    fast::LlamaCache cache;
    std::vector<float> logits(packed.vocabulary);
    const std::vector<std::int64_t> wrong{-1}, two{0, 1};
    CHECK_THROWS_WITH(fast::llama(wrong, cache, packed, drawn.options, logits, drawn.workspace),
                      ContainsSubstring("fast::llama: ids[0] is -1, expected 0 to "));
    CHECK_THROWS_WITH(fast::llama(two, cache, packed, drawn.options, logits, drawn.workspace),
                      ContainsSubstring("expected n vocabulary = " + std::to_string(2 * packed.vocabulary)));
    CHECK(cache.length() == 0);
}
