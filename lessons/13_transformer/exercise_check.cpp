// Compares exercise.cpp with the library.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/ops/random.hpp"

using namespace attn;

namespace {

LinearWeights random_map(RandomNumbers& numbers, std::size_t from, std::size_t to)
{
    Matrix weight = numbers.matrix(from, to);
    return {std::move(weight), numbers.vector(to)};
}

MultiHeadWeights random_heads(RandomNumbers& numbers, std::size_t d)
{
    MultiHeadWeights weights;
    for (LinearWeights* map : {&weights.query, &weights.key, &weights.value})
        *map = random_map(numbers, d, d);
    weights.output = random_map(numbers, d, d);
    return weights;
}

FeedForwardWeights random_feed_forward(RandomNumbers& numbers, std::size_t d,
                                       std::size_t d_ff)
{
    LinearWeights hidden = random_map(numbers, d, d_ff);
    return {std::move(hidden), random_map(numbers, d_ff, d)};
}

/// One layer on either side, eight words.
TranslatorWeights small_weights(std::uint64_t seed)
{
    constexpr std::size_t d = 8, d_ff = 12;
    RandomNumbers numbers(seed);
    const LayerNormWeights norm{xt::ones<double>({d}), Vector(xt::zeros<double>({d}))};
    TranslatorWeights weights;
    weights.table = numbers.matrix(8, d);
    MultiHeadWeights heads = random_heads(numbers, d);
    weights.transformer.encoder.layers.push_back(
        {std::move(heads), random_feed_forward(numbers, d, d_ff), norm, norm});
    MultiHeadWeights self = random_heads(numbers, d), cross = random_heads(numbers, d);
    weights.transformer.decoder.layers.push_back({std::move(self), std::move(cross),
                                                  random_feed_forward(numbers, d, d_ff),
                                                  norm, norm, norm});
    return weights;
}

void check(Lesson& lesson)
{
    const TransformerOptions options{.attention = {.heads = 2}};
    const Integers source{3, 5, 2, 7};
    for (std::uint64_t seed = 0; seed < 6; ++seed)
        for (const std::int64_t end : {1, 4, 6}) {
            const TranslatorWeights weights = small_weights(seed);
            const Translation expected = greedy_decode(
                source, {}, weights,
                {.transformer = options, .start = 0, .end = end, .max_tokens = 10});
            lesson.expect_equal("my_translation says what the library says: sentence " +
                                    std::to_string(seed) + ", which ends with word " +
                                    std::to_string(end) + " or after ten",
                                my_translation(source, weights, options, 0, end, 10),
                                expected.ids);
        }
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("13_transformer", argc, argv, check);
}
