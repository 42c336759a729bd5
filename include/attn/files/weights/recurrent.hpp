#pragma once

#include "attn/files/npz.hpp"
#include "attn/files/weights/visit.hpp"
#include "attn/reference/layers/recurrent/recurrent.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace attn::files {

/// nn.GRUCell, nn.LSTMCell: weight_ih, weight_hh, bias_ih, bias_hh, each with an ending
/// @param gates  how many maps of d_hidden features stand next to each other: 3 in a GRU, 4 in an LSTM
void visit(Either<RecurrentCellWeights> auto& w, const std::string& prefix, auto&& f, std::size_t gates,
           const std::string& ending = "", const std::string& in = "d_in")
{
    const std::string d_gates = std::to_string(gates) + "*d_hidden";
    auto& [input, recurrent] = w;
    f(WeightTensor{prefix + "weight_ih" + ending, {d_gates, in}, true}, input.weight);
    f(WeightTensor{prefix + "weight_hh" + ending, {d_gates, "d_hidden"}, true}, recurrent.weight);
    visit_bias(f, {prefix + "bias_ih" + ending, {d_gates}}, input.bias);
    visit_bias(f, {prefix + "bias_hh" + ending, {d_gates}}, recurrent.bias);
}

/// How many gates the cells have; 0 where there are none.
inline std::size_t gates_of(const RecurrentWeights& w)
{
    for (const RecurrentLayerWeights& layer : w.layers)
        for (const std::optional<RecurrentCellWeights>* cell : {&layer.forward, &layer.backward})
            if (*cell && (*cell)->recurrent.weight.size() > 0)
                return (*cell)->recurrent.weight.shape(1) / (*cell)->recurrent.weight.shape(0);
    return 0;
}

/// nn.GRU, nn.LSTM: those of a cell with the ending _l0, with _l0_reverse where a layer reads both ways, and those of
/// further layers with _l1, _l2, …
void visit(Either<RecurrentWeights> auto& w, const std::string& prefix, auto&& f, std::size_t gates)
{
    begin_part(f, w, prefix);
    std::string in = "d_in";
    auto& [layers] = w;
    for (std::size_t i = 0; i < layers.size(); ++i) {
        auto& [forward, backward] = layers[i];
        const std::string ending = "_l" + std::to_string(i);
        if (forward)
            visit(*forward, prefix, f, gates, ending, in);
        if (backward)
            visit(*backward, prefix, f, gates, ending + "_reverse", in);
        in = forward && backward ? "2*d_hidden" : "d_hidden";
    }
}

void visit(Either<RecurrentWeights> auto& w, const std::string& prefix, auto&& f) { visit(w, prefix, f, gates_of(w)); }

/// nn.GRU; as many layers and directions as the arrays have
/// @throws WeightsError  as load_weights()
RecurrentWeights gru_weights(const NamedArrays& arrays, std::size_t d_in);
/// nn.LSTM: the same names, with four gates in place of three
RecurrentWeights lstm_weights(const NamedArrays& arrays, std::size_t d_in);

} // namespace attn::files
