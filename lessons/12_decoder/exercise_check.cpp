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

DecoderLayerWeights random_layer(RandomNumbers& numbers, std::size_t d, std::size_t d_ff)
{
    DecoderLayerWeights weights;
    weights.self_attention = random_heads(numbers, d);
    weights.cross_attention = random_heads(numbers, d);
    weights.feed_forward.hidden = random_map(numbers, d, d_ff);
    weights.feed_forward.output = random_map(numbers, d_ff, d);
    for (LayerNormWeights* norm : {&weights.norm1, &weights.norm2, &weights.norm3})
        *norm = {numbers.vector(d), numbers.vector(d)};
    return weights;
}

void check(Lesson& lesson)
{
    RandomNumbers numbers(14);
    for (const std::size_t heads : {1, 2, 4}) {
        const DecoderLayerWeights weights = random_layer(numbers, 8, 5);
        const Matrix x = numbers.matrix(4, 8), memory = numbers.matrix(6, 8);
        const DecoderOptions options{
            .attention = {.heads = heads, .causal = Causal::bottom_right}};
        const Matrix mine = my_decoder_layer(x, memory, weights, heads);
        lesson.expect_equal(
            "my_decoder_layer is the library's for the first token, with " +
                std::to_string(heads) + " heads",
            Matrix(xt::view(mine, xt::range(0, 1), xt::all())),
            decoder_layer(Matrix(xt::view(x, xt::range(0, 1), xt::all())), memory, {}, {},
                          weights, options));
        lesson.expect_equal("and for all of them", mine,
                            decoder_layer(x, memory, {}, {}, weights, options));
    }
}

} // namespace

int main(int argc, char** argv) { return Lesson::run("12_decoder", argc, argv, check); }
