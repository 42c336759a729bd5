// Weights of recurrent layers: which there are in a file, and which PyTorch's modules can hold.

#include "attn/files/weights/recurrent.hpp"

#include "attn/files/weights/state_dict.hpp"

namespace attn::files {

RecurrentWeights gru_weights(const NamedArrays& arrays, std::size_t d_in)
{
    return load_weights<RecurrentWeights>(arrays, {{"d_in", d_in}}, {.module = "a GRU"}, 3);
}

RecurrentWeights lstm_weights(const NamedArrays& arrays, std::size_t d_in)
{
    return load_weights<RecurrentWeights>(arrays, {{"d_in", d_in}}, {.module = "an LSTM"}, 4);
}

void WeightsLoader::begin_part(RecurrentWeights& weights, const std::string& prefix)
{
    const auto has_cell = [&](const std::string& ending) {
        return has(prefix + "weight_ih_l" + ending) || has(prefix + "weight_hh_l" + ending);
    };
    RecurrentLayerWeights layer{RecurrentCellWeights{}};
    if (has_cell("0_reverse"))
        layer.backward.emplace();
    const auto has_layer = [&](const std::string& i) { return has_cell(i) || has_cell(i + "_reverse"); };
    do
        weights.layers.push_back(layer);
    while (has_layer(std::to_string(weights.layers.size())));
}

void StateDictWriter::begin_part(const RecurrentWeights& weights, const std::string&) const
{
    if (weights.layers.empty() || !weights.layers.front().forward)
        throw Error("PyTorch's recurrent modules read forward in every layer: they cannot hold these weights");
    const RecurrentCellWeights& first = *weights.layers.front().forward;
    const bool is_both = weights.layers.front().backward.has_value(), is_biased = first.input.bias.has_value();
    const auto fits = [&](const std::optional<RecurrentCellWeights>& cell) {
        return cell && cell->recurrent.weight.shape(0) == first.recurrent.weight.shape(0) &&
               cell->input.bias.has_value() == is_biased && cell->recurrent.bias.has_value() == is_biased;
    };
    for (const RecurrentLayerWeights& layer : weights.layers)
        if (!fits(layer.forward) || layer.backward.has_value() != is_both || (is_both && !fits(layer.backward)))
            throw Error("PyTorch's recurrent modules have the same d_hidden, directions and biases in every layer: "
                        "they cannot hold these weights");
}

} // namespace attn::files
