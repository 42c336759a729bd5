// Compares exercise.cpp with the library.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/weights/state_dict.hpp"

using namespace attn;

namespace {

void check(Lesson& lesson)
{
    NamedArrays parameters = read_weights(lesson.file("pytorch.npz"));
    const Matrix x = from_array<Matrix>(parameters.extract("x").mapped());
    parameters.erase("output");
    const EncoderLayerWeights weights =
        load_weights<EncoderLayerWeights>(parameters, {{"d_model", x.shape(1)}});
    for (const std::size_t heads : {2, 4})
        lesson.expect_equal("my_pre_norm_layer is the library's, with " +
                                std::to_string(heads) + " heads",
                            my_pre_norm_layer(x, weights, heads),
                            encoder_layer(x, {}, weights,
                                          {.attention = {.heads = heads},
                                           .placement = NormPlacement::pre}));
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("10_encoder_layer", argc, argv, check);
}
