// Compares exercise 12 with the library.

#include "exercise.hpp"

#include "../exercise_check.hpp"
#include "../random_weights.hpp"

#include "attn/files/weights/state_dict.hpp"

using namespace attn;

namespace {

DecoderLayerWeights random_layer(RandomNumbers& numbers, std::size_t d, std::size_t d_ff)
{
    DecoderLayerWeights weights;
    weights.self_attention = random_heads(numbers, d);
    weights.cross_attention = random_heads(numbers, d);
    weights.feed_forward = random_feed_forward(numbers, d, d_ff);
    for (LayerNormWeights* norm : {&weights.norm1, &weights.norm2, &weights.norm3})
        *norm = {numbers.vector(d), numbers.vector(d)};
    return weights;
}

void check(Exercise& exercise)
{
    RandomNumbers numbers(14);
    for (const std::size_t heads : {1, 2, 4}) {
        const DecoderLayerWeights weights = random_layer(numbers, 8, 5);
        const Matrix x = numbers.matrix(4, 8), memory = numbers.matrix(6, 8);
        Recorder run;
        decoder_layer(x, memory, weights,
                      {.attention = {.heads = heads, .causal = Causal::bottom_right}},
                      Trace(run));
        exercise.expect({"my_decoder_layer",
                         {{"x", x},
                          {"memory", memory},
                          {"weights", files::state_dict(weights)},
                          {"heads", heads}}},
                        run, "output",
                        [&] { return my_decoder_layer(x, memory, weights, heads); });
    }
}

} // namespace

int main(int argc, char** argv) { return Exercise::run("12_decoder", argc, argv, check); }
