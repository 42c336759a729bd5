// GRUs and LSTMs.

#include "all_modules.hpp"
#include "shared.hpp"

#include "attn/files/weights/recurrent.hpp"
#include "attn/reference/layers/recurrent/gru.hpp"
#include "attn/reference/layers/recurrent/lstm.hpp"

#include <memory>

namespace attn::cli {
namespace {

ModuleInput initial_state(std::string name) { return {std::move(name), "cells, (b,) d_hidden", "(default: zeros)"}; }

std::vector<ModuleInput> recurrent_inputs()
{
    return {required("x", "(b,) n, d_in"), lengths_input(), initial_state("initial_hidden")};
}

} // namespace

Module gru_module()
{
    const auto options = std::make_shared<GruOptions>();
    return {
        .name = "gru",
        .summary = "nn.GRU: layers and directions are those of the weights",
        .inputs = recurrent_inputs(),
        .flags = {{"--reset", "",
                   one_of(options->reset, {{"after", ResetGate::after_product}, {"before", ResetGate::before_product}}),
                   "the reset gate acts on the state's product (after: PyTorch), or on the state (before: Cho et al. "
                   "2014, Keras with reset_after=False)"}},
        .run = with_tokens("x", [options]<Sequence T>(const T& x, const ModuleRun& run) {
            std::optional<T> initial;
            if (run.inputs.has("initial_hidden"))
                initial = run.inputs.get<T>("initial_hidden");
            gru(x, initial, run.inputs.lengths("lengths", x), run.list(files::gru_weights(run.arrays, features(x))),
                *options, run.trace);
        })};
}

Module lstm_module()
{
    std::vector<ModuleInput> inputs = recurrent_inputs();
    inputs.push_back(initial_state("initial_cell"));
    return {.name = "lstm",
            .summary = "nn.LSTM: layers and directions are those of the weights",
            .inputs = inputs,
            .run = with_tokens("x", []<Sequence T>(const T& x, const ModuleRun& run) {
                const bool has_state = run.inputs.has("initial_hidden");
                if (has_state != run.inputs.has("initial_cell"))
                    throw Error("initial_hidden and initial_cell belong together: give both, or none for zeros");
                std::optional<LstmStateOf<T>> initial;
                if (has_state)
                    initial = {run.inputs.get<T>("initial_hidden"), run.inputs.get<T>("initial_cell")};
                lstm(x, initial, run.inputs.lengths("lengths", x),
                     run.list(files::lstm_weights(run.arrays, features(x))), run.trace);
            })};
}

} // namespace attn::cli
