// Compares exercise 10 with the library.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/files/weights/state_dict.hpp"

using namespace attn;

namespace {

void check(Exercise& exercise)
{
    files::NamedArrays parameters = files::read_weights(exercise.file("pytorch.npz"));
    const Matrix x = from_array<Matrix>(parameters.extract("x").mapped());
    parameters.erase("output");
    const EncoderLayerWeights weights =
        files::load_weights<EncoderLayerWeights>(parameters, {{"d_model", x.shape(1)}});
    for (const std::size_t heads : {2, 4}) {
        Recorder run;
        encoder_layer(x, weights,
                      {.attention = {.heads = heads}, .placement = NormPlacement::pre},
                      Trace(run));
        exercise.expect(
            {"my_pre_norm_layer", {{"x", x}, {"weights", parameters}, {"heads", heads}}},
            run, "output", [&] { return my_pre_norm_layer(x, weights, heads); });
    }
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("10_encoder_layer", argc, argv, check);
}
