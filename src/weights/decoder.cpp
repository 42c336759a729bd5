// The tensors of decoders and of whole Transformers, under PyTorch's names.

#include "attn/weights/state_dict.hpp"

#include "reader.hpp"
#include "writer.hpp"

namespace attn {
namespace {

DecoderLayerWeights take_decoder_layer(StateDictReader& reader, const std::string& prefix)
{
    DecoderLayerWeights weights;
    weights.self_attention = take_multi_head(reader, prefix + "self_attn.", true);
    weights.cross_attention = take_multi_head(reader, prefix + "multihead_attn.", true);
    weights.feed_forward = take_feed_forward(reader, prefix);
    weights.norm1 = take_layer_norm(reader, prefix + "norm1.");
    weights.norm2 = take_layer_norm(reader, prefix + "norm2.");
    weights.norm3 = take_layer_norm(reader, prefix + "norm3.");
    return weights;
}

void put_decoder_layer(NamedArrays& arrays, const std::string& prefix, const DecoderLayerWeights& weights)
{
    put_multi_head(arrays, prefix + "self_attn.", weights.self_attention);
    put_multi_head(arrays, prefix + "multihead_attn.", weights.cross_attention);
    put_feed_forward(arrays, prefix, weights.feed_forward);
    put_layer_norm(arrays, prefix + "norm1.", weights.norm1);
    put_layer_norm(arrays, prefix + "norm2.", weights.norm2);
    put_layer_norm(arrays, prefix + "norm3.", weights.norm3);
}

void put_decoder(NamedArrays& arrays, const std::string& prefix, const DecoderWeights& weights)
{
    for (std::size_t i = 0; i < weights.layers.size(); ++i)
        put_decoder_layer(arrays, prefix + "layers." + std::to_string(i) + ".", weights.layers[i]);
    if (weights.norm)
        put_layer_norm(arrays, prefix + "norm.", *weights.norm);
}

} // namespace

DecoderLayerWeights decoder_layer_weights(const NamedArrays& arrays, std::size_t d_model)
{
    StateDictReader reader(arrays, with_d_model("a decoder layer", d_model), sizes_of(d_model));
    DecoderLayerWeights weights = take_decoder_layer(reader, "");
    reader.finish();
    return weights;
}

DecoderWeights decoder_weights(const NamedArrays& arrays, std::size_t d_model, std::optional<std::size_t> layers)
{
    StateDictReader reader(arrays, with_d_model("a decoder", d_model), sizes_of(d_model));
    DecoderWeights weights = take_stack<DecoderWeights>(reader, "", layers, take_decoder_layer);
    reader.finish();
    return weights;
}

TransformerWeights transformer_weights(const NamedArrays& arrays, std::size_t d_model,
                                       std::optional<std::size_t> layers)
{
    StateDictReader reader(arrays, with_d_model("a Transformer", d_model), sizes_of(d_model));
    EncoderWeights encoder = take_encoder(reader, "encoder.", layers);
    TransformerWeights weights{std::move(encoder),
                               take_stack<DecoderWeights>(reader, "decoder.", layers, take_decoder_layer)};
    reader.finish();
    return weights;
}

NamedArrays state_dict(const DecoderLayerWeights& weights)
{
    NamedArrays arrays;
    put_decoder_layer(arrays, "", weights);
    return arrays;
}

NamedArrays state_dict(const DecoderWeights& weights)
{
    NamedArrays arrays;
    put_decoder(arrays, "", weights);
    return arrays;
}

NamedArrays state_dict(const TransformerWeights& weights)
{
    NamedArrays arrays;
    put_encoder(arrays, "encoder.", weights.encoder);
    put_decoder(arrays, "decoder.", weights.decoder);
    return arrays;
}

} // namespace attn
