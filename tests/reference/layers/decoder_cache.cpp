#include "attn/reference/layers/decoder_cache.hpp"

#include "decoder_examples.hpp"
#include "masked.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/concat.hpp"

using namespace attn;
using namespace attn::test;

namespace {

/// Rows from begin up to, not including, end.
Matrix rows_between(const Matrix& x, std::size_t begin, std::size_t end)
{
    std::vector<std::size_t> order;
    for (std::size_t i = begin; i < end; ++i)
        order.push_back(i);
    return rows_by_hand(x, order);
}

/// A decoder given so many tokens at a time.
Matrix step_by_step(const Matrix& x, const Matrix& memory, const DecoderWeights& weights, const Layers& options,
                    std::size_t at_a_time)
{
    DecoderCache cache = start_decoder_cache(memory, weights);
    Matrix outputs(Matrix::shape_type{0, x.shape(1)});
    for (std::size_t begin = 0; begin < x.shape(0); begin += at_a_time) {
        const std::size_t end = std::min(begin + at_a_time, x.shape(0));
        OptionalMask now;
        if (options.memory_mask) {
            const Mask& all = std::get<Mask>(*options.memory_mask);
            Mask some(Mask::shape_type{end - begin, all.shape(1)});
            for (std::size_t i = 0; i < some.shape(0); ++i)
                for (std::size_t j = 0; j < some.shape(1); ++j)
                    some(i, j) = all(begin + i, j);
            now = some;
        }
        const DecoderStep step =
            decoder_step(rows_between(x, begin, end), cache, weights, masked_decoder(for_decoder(options), {}, now));
        outputs = concat_rows(outputs, step.output);
        cache = step.cache;
    }
    return outputs;
}

/// The multiplications of every matrix product of a run, counted from the shapes of what was multiplied.
std::size_t multiplications_in(const Recorder& recorder)
{
    std::map<std::string, Shape> shapes;
    std::size_t count = 0;
    for (const Step& step : recorder.steps()) {
        shapes[step.path] = step.value.shape;
        const std::size_t product = step.formula.find(" @ ");
        if (product == std::string::npos)
            continue;
        const std::string left = step.formula.substr(0, product);
        std::string scope = step.path.substr(0, step.path.rfind('.') + 1);
        while (!scope.empty() && !shapes.contains(scope + left)) {
            scope.pop_back();
            scope.resize(scope.rfind('.') + 1);
        }
        count += step.value.size() * shapes.at(scope + left).back();
    }
    return count;
}

} // namespace

TEST_CASE("a decoder that keeps keys and values gives what it gives on everything, token by token or some at a time",
          "[layers][decoder][cache]")
{
    Numbers numbers(1);
    const Matrix x = numbers.matrix(5, 8), memory = numbers.matrix(4, 8);
    const OptionalMask none, some = numbers.mask(5, 4);
    for (const NormPlacement placement : {NormPlacement::post, NormPlacement::pre})
        for (const OptionalMask& memory_mask : {none, some})
            for (const HeadPositions positions : {HeadPositions::none, HeadPositions::rotary, HeadPositions::alibi})
                for (const std::size_t at_a_time : {1, 2, 5}) {
                    CAPTURE(placement == NormPlacement::pre, memory_mask.has_value(), at_a_time);
                    const DecoderWeights weights = random_decoder(numbers, 3, true, 8);
                    Layers options{
                        {.attention = {.heads = 2, .scale = 0.3, .positions = positions}, .placement = placement}};
                    options.memory_mask = memory_mask;
                    const Matrix found = step_by_step(x, memory, weights, options, at_a_time);
                    options.attention.causal = Causal::bottom_right;
                    CHECK(close(found, decode(x, memory, weights, options)));
                }
}

TEST_CASE("a step changes neither the cache that it is given nor what another step makes of it",
          "[layers][decoder][cache]")
{
    Numbers numbers(2);
    const Matrix memory = numbers.matrix(4, 6), first = numbers.matrix(1, 6), second = numbers.matrix(1, 6);
    const DecoderWeights weights = random_decoder(numbers, 2, false);
    const DecoderOptions options{.attention = {.heads = 2}};
    const DecoderCache start = start_decoder_cache(memory, weights);
    const DecoderStep once = decoder_step(first, start, weights, options);
    const DecoderStep other = decoder_step(second, once.cache, weights, options);
    CHECK(same_bits(decoder_step(first, start, weights, options).output, once.output));
    CHECK(same_bits(decoder_step(second, once.cache, weights, options).output, other.output));
    CHECK(!start.layers[0].tokens.has_value());
    CHECK(shape_of(once.cache.layers[1].tokens->values) == Shape{1, 6});
    CHECK(shape_of(other.cache.layers[1].tokens->keys) == Shape{2, 6});
    CHECK(same_bits(other.cache.layers[1].memory.keys, start.layers[1].memory.keys));
}

TEST_CASE("tracing a step changes no bit, and every formula gives what was computed", "[layers][decoder][cache][trace]")
{
    Numbers numbers(3);
    const Matrix memory = numbers.matrix(4, 6), x = numbers.matrix(3, 6);
    const DecoderWeights weights = random_decoder(numbers, 2, true);
    for (const NormPlacement placement : {NormPlacement::post, NormPlacement::pre}) {
        DecoderCache cache;
        const Recorder starting =
            recorded([&](const Trace& trace) { cache = start_decoder_cache(memory, weights, trace); });
        CHECK(wrong_steps(starting) == std::vector<std::string>{});
        for (const std::size_t tokens : {1, 1, 2}) {
            const Matrix newest = rows_between(x, 0, tokens);
            const DecoderOptions options{.attention = {.heads = 2}, .placement = placement};
            const Mask mask(Mask::shape_type{tokens, 4}, true);
            DecoderStep step;
            const Recorder recorder = recorded([&](const Trace& trace) {
                step = decoder_step(newest, cache, weights, masked_decoder(options, {}, mask), trace);
            });
            CHECK(wrong_steps(recorder) == std::vector<std::string>{});
            CHECK(
                same_bits(step.output, decoder_step(newest, cache, weights, masked_decoder(options, {}, mask)).output));
            CHECK(count_of(recorder, "memory_mask") == 1);
            CHECK(count_of(recorder, "causal") == (tokens > 1 ? 2 : 0));
            cache = step.cache;
        }
    }
}

TEST_CASE(
    "a decoder layer that goes on from a cache gives the rows that it gives for all tokens, of a sequence and a batch",
    "[layers][decoder][cache]")
{
    Numbers numbers(7);
    const DecoderLayerWeights weights = random_decoder_layer(numbers, 8);
    const Tensor3 x = numbers.tensor3(2, 5, 8), memory = numbers.tensor3(2, 4, 8);
    for (const NormPlacement placement : {NormPlacement::post, NormPlacement::pre})
        for (const HeadPositions positions : {HeadPositions::none, HeadPositions::rotary}) {
            const DecoderOptions options{
                .attention = {.heads = 2, .causal = Causal::bottom_right, .positions = positions},
                .placement = placement};
            const Tensor3 whole = decoder_layer(x, memory, weights, options);
            PastOfTokens<Tensor3> past;
            for (const auto& [begin, end] : {std::pair(0, 2), {2, 3}, {3, 5}}) {
                const Tensor3 tokens = xt::view(x, xt::all(), xt::range(begin, end), xt::all());
                const Tensor3 expected = xt::view(whole, xt::all(), xt::range(begin, end), xt::all());
                Tensor3 output;
                const Recorder recorder = recorded([&](const Trace& trace) {
                    auto found = cached_decoder_layer(tokens, memory, past, weights, options, trace);
                    output = found.output;
                    past = std::move(found.cache);
                });
                CAPTURE(begin, end);
                CHECK(close(output, expected));
                CHECK(wrong_steps(recorder) == std::vector<std::string>{});
            }
            CHECK(shape_of(past->keys) == Shape{2, 5, 8});
        }
    const Matrix one = numbers.matrix(1, 8), others = numbers.matrix(4, 8);
    const KeyValueCache narrow{numbers.matrix(3, 4), numbers.matrix(3, 4)};
    CHECK_THROWS_AS(cached_decoder_layer(one, others, narrow, weights, {.attention = {.heads = 2}}), ShapeError);
}

TEST_CASE("the multiplications of a decoder are those of its trace, with a cache and without",
          "[layers][decoder][cache][cost]")
{
    Numbers numbers(4);
    for (const std::size_t heads : {1, 3}) {
        const Matrix x = numbers.matrix(4, 6), memory = numbers.matrix(5, 6);
        const DecoderWeights weights = random_decoder(numbers, 2, true);
        const DecoderSizes sizes{.layers = 2, .d_model = 6, .d_ff = 5, .m = 5};
        const DecoderOptions options{.attention = {.heads = heads}};
        CHECK(multiplications_in(recorded([&](const Trace& trace) { decoder(x, memory, weights, options, trace); })) ==
              decoder_multiplications(4, sizes));
        DecoderCache cache;
        CHECK(multiplications_in(recorded([&](const Trace& trace) {
                  cache = start_decoder_cache(memory, weights, trace);
              })) == decoder_cache_multiplications(sizes));
        for (std::size_t i = 0; i < 4; ++i) {
            DecoderStep step;
            CHECK(multiplications_in(recorded([&](const Trace& trace) {
                      step = decoder_step(rows_between(x, i, i + 1), cache, weights, options, trace);
                  })) == decoder_step_multiplications(i + 1, sizes));
            cache = step.cache;
        }
    }
}

TEST_CASE("a step refuses what a cache can't serve", "[layers][decoder][cache]")
{
    Numbers numbers(5);
    const Matrix x = numbers.matrix(1, 6), memory = numbers.matrix(4, 6);
    const DecoderWeights weights = random_decoder(numbers, 2, false);
    const DecoderCache cache = start_decoder_cache(memory, weights);
    CHECK_THROWS_WITH(decoder_step(x, {}, weights), ContainsSubstring("the cache has 0 layers, expected"));
    CHECK_THROWS_WITH(decoder_step(numbers.matrix(1, 5), cache, weights), ContainsSubstring("x (1, 5)"));
    CHECK_THROWS_WITH(
        decoder_step(x, cache, weights, masked_decoder(DecoderOptions(), {}, Mask(Mask::shape_type{1, 3}, true))),
        ContainsSubstring("mask (1, 3)"));
    CHECK_THROWS_WITH(start_decoder_cache(numbers.matrix(4, 5), weights), ContainsSubstring("(4, 5)"));
    CHECK_THROWS_WITH(decoder_step(x, cache, weights, {.attention = {.heads = 4}}), ContainsSubstring("among 4 heads"));
    DecoderCache other = cache;
    other.layers[1].memory.values = numbers.matrix(3, 6);
    CHECK_THROWS_WITH(decoder_step(x, other, weights),
                      ContainsSubstring("cached_cross_attention: key (4, 6) and value (3, 6)"));
}

TEST_CASE("cross-attention with kept keys and values gives what multi-head attention gives", "[layers][heads][cache]")
{
    Numbers numbers(6);
    const MultiHeadWeights weights = random_heads(numbers);
    const Matrix x = numbers.matrix(3, 6), memory = numbers.matrix(4, 6);
    const KeyValueCache kept{linear_by_hand(memory, weights.key), linear_by_hand(memory, weights.value)};
    const Mask mask = numbers.mask(3, 4);
    const MultiHead found = cached_cross_attention(x, kept, weights, {.heads = 2, .mask = mask});
    const MultiHead expected = multi_head_attention(Sources(x, memory), weights, {.heads = 2, .mask = mask});
    CHECK(close(found.output, expected.output));
    CHECK(close(found.weights[1], expected.weights[1]));
    CHECK_THROWS_WITH(cached_cross_attention(x, kept, weights, {.heads = 3}), ContainsSubstring("among 3 heads"));
    CHECK_THROWS_WITH(cached_cross_attention(x, {numbers.matrix(4, 5), kept.values}, weights),
                      ContainsSubstring("h d_k"));
    MultiHeadWeights other = weights;
    other.output = random_linear(numbers, 7, 6);
    CHECK_THROWS_WITH(cached_cross_attention(x, kept, other), ContainsSubstring("h d_v"));
}
