// Compares exercise 13 with the library.

#include "exercise.hpp"

#include "../exercise_check.hpp"
#include "../random_weights.hpp"

#include "attn/files/weights/state_dict.hpp"
#include "attn/files/weights/transformer.hpp"

#include <tuple>

using namespace attn;

namespace {

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

void expect_translation(Exercise& exercise, const TranslatorWeights& weights,
                        std::int64_t end)
{
    constexpr std::size_t heads = 2, max_tokens = 10;
    constexpr std::int64_t start = 0;
    const TransformerOptions options{.attention = {.heads = heads}};
    const Integers source{3, 5, 2, 7};
    Recorder run;
    const Trace trace(run);
    const Integers ids = greedy_decode(source, weights,
                                       {.transformer = options,
                                        .start = start,
                                        .end = end,
                                        .max_tokens = max_tokens},
                                       trace)
                             .ids;
    std::string formula = "concat(";
    for (std::size_t i = 0; i < ids.size(); ++i)
        formula += "reshape(steps." + std::to_string(i) + ".next_id, 1), ";
    std::ignore = trace("ids[n]", formula + "axis=0)", ids);
    exercise.expect(
        {.function = "my_translation",
         .arguments = {{"source", source},
                       {"weights", files::state_dict(weights)},
                       {"heads", heads},
                       {"start", start},
                       {"end", end},
                       {"max_tokens", max_tokens}},
         .task = "append the id with the largest logit of the last row, until it is end"},
        run, "ids",
        [&] { return my_translation(source, weights, options, start, end, max_tokens); });
}

void check(Exercise& exercise)
{
    for (std::uint64_t seed = 0; seed < 6; ++seed)
        for (const std::int64_t end : {1, 4, 6})
            expect_translation(exercise, small_weights(seed), end);
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("13_transformer", argc, argv, check);
}
