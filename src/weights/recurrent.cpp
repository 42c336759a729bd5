// nn.GRU and nn.LSTM: a cell's names end with its layer and direction.

#include "attn/weights/state_dict.hpp"

#include "reader.hpp"
#include "writer.hpp"

namespace attn {
namespace {

/// "_l1", "_l1_reverse"
std::string ending(std::size_t layer, bool is_backward)
{
    return "_l" + std::to_string(layer) + (is_backward ? "_reverse" : "");
}

/// Where a cell's input is a letter of its own: d_in, or what the directions below gave.
RecurrentCellWeights take_cell(StateDictReader& reader, const std::string& ending, std::size_t gates,
                               const Dimension& d_in)
{
    const Dimension d_gates{gates, "d_hidden"};
    LinearWeights input{reader.weight("weight_ih" + ending, d_gates, d_in)};
    LinearWeights recurrent{reader.weight("weight_hh" + ending, d_gates, {1, "d_hidden"})};
    input.bias = reader.bias("bias_ih" + ending, d_gates);
    recurrent.bias = reader.bias("bias_hh" + ending, d_gates);
    return {std::move(input), std::move(recurrent)};
}

RecurrentWeights take_recurrent(StateDictReader& reader, std::size_t gates)
{
    const auto has = [&](std::size_t layer, bool is_backward) {
        return reader.has("weight_ih" + ending(layer, is_backward)) ||
               reader.has("weight_hh" + ending(layer, is_backward));
    };
    const bool is_both = has(0, true);
    RecurrentWeights weights;
    for (std::size_t layer = 0; layer == 0 || has(layer, false) || has(layer, true); ++layer) {
        const Dimension d_in = layer == 0 ? Dimension{1, "d_in"} : Dimension{is_both ? 2u : 1u, "d_hidden"};
        RecurrentLayerWeights of_layer;
        of_layer.forward = take_cell(reader, ending(layer, false), gates, d_in);
        if (is_both)
            of_layer.backward = take_cell(reader, ending(layer, true), gates, d_in);
        weights.layers.push_back(std::move(of_layer));
    }
    return weights;
}

RecurrentWeights read_recurrent(const NamedArrays& arrays, const std::string& module, std::size_t d_in,
                                std::size_t gates)
{
    StateDictReader reader(arrays, module + " with d_in " + std::to_string(d_in), {{"d_in", d_in}});
    reader.expect_biases(reader.has_any("bias_"));
    RecurrentWeights weights = take_recurrent(reader, gates);
    reader.finish();
    return weights;
}

void put_cell(NamedArrays& arrays, const std::string& ending, const RecurrentCellWeights& weights)
{
    put_weight(arrays, "weight_ih" + ending, weights.input.weight);
    put_weight(arrays, "weight_hh" + ending, weights.recurrent.weight);
    put_bias(arrays, "bias_ih" + ending, weights.input.bias);
    put_bias(arrays, "bias_hh" + ending, weights.recurrent.bias);
}

/// What nn.GRU and nn.LSTM can't hold.
void expect_pytorch(const RecurrentWeights& weights)
{
    if (weights.layers.empty() || !weights.layers.front().forward)
        throw Error("PyTorch's recurrent modules read forward in every layer: these weights have no place in them");
    const RecurrentCellWeights& first = *weights.layers.front().forward;
    const bool is_both = weights.layers.front().backward.has_value(), is_biased = first.input.bias.has_value();
    const auto fits = [&](const std::optional<RecurrentCellWeights>& cell) {
        return cell && cell->recurrent.weight.shape(0) == first.recurrent.weight.shape(0) &&
               cell->input.bias.has_value() == is_biased && cell->recurrent.bias.has_value() == is_biased;
    };
    for (const RecurrentLayerWeights& layer : weights.layers)
        if (!fits(layer.forward) || layer.backward.has_value() != is_both || (is_both && !fits(layer.backward)))
            throw Error("PyTorch's recurrent modules have the same d_hidden, directions and biases in every layer: "
                        "these weights have no place in them");
}

} // namespace

RecurrentWeights gru_weights(const NamedArrays& arrays, std::size_t d_in)
{
    return read_recurrent(arrays, "a GRU", d_in, 3);
}

RecurrentWeights lstm_weights(const NamedArrays& arrays, std::size_t d_in)
{
    return read_recurrent(arrays, "an LSTM", d_in, 4);
}

NamedArrays state_dict(const RecurrentWeights& weights)
{
    expect_pytorch(weights);
    NamedArrays arrays;
    for (std::size_t layer = 0; layer < weights.layers.size(); ++layer) {
        put_cell(arrays, ending(layer, false), *weights.layers[layer].forward);
        if (weights.layers[layer].backward)
            put_cell(arrays, ending(layer, true), *weights.layers[layer].backward);
    }
    return arrays;
}

} // namespace attn
