// GRUs and LSTMs.

#include "families.hpp"
#include "shared.hpp"

#include "attn/layers/recurrent/recurrent.hpp"
#include "attn/weights/state_dict.hpp"

#include <memory>

namespace attn {
namespace {

ModuleInput initial_state(std::string name) { return {std::move(name), "cells, (b,) d_hidden", "(default: zeros)"}; }

std::vector<ModuleInput> recurrent_inputs()
{
    return {required("x", "(b,) n, d_in"), lengths_input(), initial_state("initial_hidden")};
}

template <Sequence T>
std::vector<std::size_t> lengths_of(const T& x, const ModuleRun& run)
{
    const std::optional<Integers> lengths = run.inputs.lengths("lengths", x);
    return lengths ? std::vector<std::size_t>(lengths->begin(), lengths->end()) : std::vector<std::size_t>{};
}

} // namespace

Module gru_module()
{
    const auto options = std::make_shared<GruCellOptions>();
    return {
        .name = "gru",
        .summary = "nn.GRU: layers and directions are those of the weights",
        .inputs = recurrent_inputs(),
        .flags = {{"--reset", "",
                   one_of(options->reset, {{"after", ResetGate::after_product}, {"before", ResetGate::before_product}}),
                   "the reset gate acts on the state's product (after: PyTorch), or on the state (before: Cho et al. "
                   "2014, Keras with reset_after=False)"}},
        .run = with_tokens("x", [options]<Sequence T>(const T& x, const ModuleRun& run) {
            const RecurrentWeights weights = gru_weights(run.weights, features(x));
            const GruOptions of_run{*options, lengths_of(x, run)};
            if (run.inputs.has("initial_hidden"))
                gru(x, run.inputs.get<T>("initial_hidden"), weights, of_run, run.trace);
            else
                gru(x, weights, of_run, run.trace);
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
                const RecurrentWeights weights = lstm_weights(run.weights, features(x));
                const std::vector<std::size_t> lengths = lengths_of(x, run);
                if (has_state)
                    lstm(x, {run.inputs.get<T>("initial_hidden"), run.inputs.get<T>("initial_cell")}, weights,
                         {lengths}, run.trace);
                else
                    lstm(x, weights, {lengths}, run.trace);
            })};
}

} // namespace attn
