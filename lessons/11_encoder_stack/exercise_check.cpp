// Holds exercise.cpp against the weights that the library's encoder asks for.

#include "exercise.hpp"

#include "../lesson.hpp"

#include "attn/weights/state_dict.hpp"

using namespace attn;

namespace {

LinearWeights map(std::size_t from, std::size_t to)
{
    return {xt::zeros<double>({from, to}), Vector(xt::zeros<double>({to}))};
}

/// The numbers in the state_dict of an encoder of these sizes.
std::size_t counted(std::size_t layers, std::size_t d_model, std::size_t d_ff)
{
    const LayerNormWeights norm{xt::ones<double>({d_model}),
                                Vector(xt::zeros<double>({d_model}))};
    const LinearWeights square = map(d_model, d_model);
    const EncoderLayerWeights layer{{square, square, square, square},
                                    {map(d_model, d_ff), map(d_ff, d_model)},
                                    norm,
                                    norm};
    std::size_t count = 0;
    for (const auto& [name, array] :
         state_dict(EncoderWeights{std::vector<EncoderLayerWeights>(layers, layer)}))
        count += array.size();
    return count;
}

void check(Lesson& lesson)
{
    lesson.expect("my_parameter_count is right for one small layer",
                  my_parameter_count(1, 4, 6) == counted(1, 4, 6));
    lesson.expect("my_parameter_count is right for the paper's encoder",
                  my_parameter_count(6, 512, 2048) == counted(6, 512, 2048));
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("11_encoder_stack", argc, argv, check);
}
