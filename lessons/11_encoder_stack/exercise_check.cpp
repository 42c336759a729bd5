// Compares exercise 11 with the weights that the encoder of the library asks for.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/files/weights/state_dict.hpp"

#include <tuple>

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
    for (const auto& [name, array] : files::state_dict(
             EncoderWeights{std::vector<EncoderLayerWeights>(layers, layer)}))
        count += array.size();
    return count;
}

void expect_count(Exercise& exercise, std::size_t layers, std::size_t d_model,
                  std::size_t d_ff)
{
    Recorder run;
    const Trace trace(run);
    const auto record = [&](std::string_view name, std::string_view formula,
                            std::size_t value) {
        std::ignore = trace(name, formula, static_cast<std::int64_t>(value));
    };
    record("layers", "", layers);
    record("d_model", "", d_model);
    record("d_ff", "", d_ff);
    record("attention", "4 * (d_model * d_model + d_model)",
           4 * (d_model * d_model + d_model));
    record("feed_forward", "d_model * d_ff + d_ff + d_ff * d_model + d_model",
           2 * d_model * d_ff + d_ff + d_model);
    record("norms", "2 * (d_model + d_model)", 4 * d_model);
    record("parameters", "layers * (attention + feed_forward + norms)",
           counted(layers, d_model, d_ff));
    exercise.expect({"my_parameter_count",
                     {{"layers", layers}, {"d_model", d_model}, {"d_ff", d_ff}}},
                    run, "parameters", [&] {
                        return static_cast<std::int64_t>(
                            my_parameter_count(layers, d_model, d_ff));
                    });
}

void check(Exercise& exercise)
{
    expect_count(exercise, 1, 4, 6);
    expect_count(exercise, 6, 512, 2048);
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("11_encoder_stack", argc, argv, check);
}
