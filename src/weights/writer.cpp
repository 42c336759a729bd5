#include "writer.hpp"

#include "attn/error.hpp"
#include "attn/ops/concat.hpp"
#include "attn/ops/matmul.hpp"

namespace attn {

void put_weight(NamedArrays& arrays, const std::string& name, const Matrix& weight)
{
    arrays[name] = to_array(transpose(weight));
}

void put_bias(NamedArrays& arrays, const std::string& name, const std::optional<Vector>& bias)
{
    if (bias)
        arrays[name] = to_array(*bias);
}

void put_linear(NamedArrays& arrays, const std::string& name, const LinearWeights& weights)
{
    put_weight(arrays, name + ".weight", weights.weight);
    put_bias(arrays, name + ".bias", weights.bias);
}

namespace {

/// What nn.MultiheadAttention can't hold; it has a bias for all maps or none, and an output map.
void expect_pytorch(const MultiHeadWeights& w)
{
    const std::size_t d_model = w.query.weight.shape(0);
    const bool square =
        w.query.weight.shape(1) == d_model && w.key.weight.shape(1) == d_model && w.value.weight.shape(1) == d_model;
    if (!square || !w.output || w.output->weight.shape(1) != d_model)
        throw Error(
            "PyTorch's nn.MultiheadAttention has heads of d_model / h features and an output map: these weights "
            "have no place in it");
    const bool biased = w.query.bias.has_value();
    if (w.key.bias.has_value() != biased || w.value.bias.has_value() != biased || w.output->bias.has_value() != biased)
        throw Error("PyTorch's nn.MultiheadAttention has a bias for all of its maps or for none");
}

} // namespace

void put_multi_head(NamedArrays& arrays, const std::string& prefix, const MultiHeadWeights& w)
{
    expect_pytorch(w);
    const std::size_t d_model = w.query.weight.shape(0);
    if (w.key.weight.shape(0) == d_model && w.value.weight.shape(0) == d_model) {
        put_weight(arrays, prefix + "in_proj_weight",
                   concat_columns(std::vector<Matrix>{w.query.weight, w.key.weight, w.value.weight}));
    } else {
        put_weight(arrays, prefix + "q_proj_weight", w.query.weight);
        put_weight(arrays, prefix + "k_proj_weight", w.key.weight);
        put_weight(arrays, prefix + "v_proj_weight", w.value.weight);
    }
    if (w.query.bias)
        arrays[prefix + "in_proj_bias"] = to_array(concat(concat(*w.query.bias, *w.key.bias), *w.value.bias));
    put_linear(arrays, prefix + "out_proj", *w.output);
}

void put_feed_forward(NamedArrays& arrays, const std::string& prefix, const FeedForwardWeights& weights)
{
    put_linear(arrays, prefix + "linear1", weights.hidden);
    put_linear(arrays, prefix + "linear2", weights.output);
}

void put_layer_norm(NamedArrays& arrays, const std::string& prefix, const LayerNormWeights& weights)
{
    arrays[prefix + "weight"] = to_array(weights.gain);
    put_bias(arrays, prefix + "bias", weights.bias);
}

void put_encoder_layer(NamedArrays& arrays, const std::string& prefix, const EncoderLayerWeights& weights)
{
    put_multi_head(arrays, prefix + "self_attn.", weights.self_attention);
    put_feed_forward(arrays, prefix, weights.feed_forward);
    put_layer_norm(arrays, prefix + "norm1.", weights.norm1);
    put_layer_norm(arrays, prefix + "norm2.", weights.norm2);
}

void put_encoder(NamedArrays& arrays, const std::string& prefix, const EncoderWeights& weights)
{
    for (std::size_t i = 0; i < weights.layers.size(); ++i)
        put_encoder_layer(arrays, prefix + "layers." + std::to_string(i) + ".", weights.layers[i]);
    if (weights.norm)
        put_layer_norm(arrays, prefix + "norm.", *weights.norm);
}

} // namespace attn
