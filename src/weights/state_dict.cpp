// Which tensors each module has, under PyTorch's names.

#include "attn/weights/state_dict.hpp"

#include "reader.hpp"
#include "writer.hpp"

namespace attn {

MultiHeadWeights multi_head_weights(const NamedArrays& arrays, const AttentionSizes& sizes, bool has_output_map)
{
    std::map<std::string, std::size_t> known = sizes_of(sizes.d_model);
    known["d_memory"] = sizes.d_memory.value_or(sizes.d_model);
    known["d_value"] = sizes.d_value.value_or(known["d_memory"]);
    StateDictReader reader(arrays, with_d_model("a multi-head attention", sizes.d_model), std::move(known));
    MultiHeadWeights weights = take_multi_head(reader, "", has_output_map);
    reader.finish();
    return weights;
}

FeedForwardWeights feed_forward_weights(const NamedArrays& arrays, std::size_t d_model)
{
    StateDictReader reader(arrays, with_d_model("a feed-forward network", d_model), sizes_of(d_model));
    FeedForwardWeights weights = take_feed_forward(reader, "");
    reader.finish();
    return weights;
}

LayerNormWeights layer_norm_weights(const NamedArrays& arrays, std::size_t d_model)
{
    StateDictReader reader(arrays, with_d_model("a layer norm", d_model), sizes_of(d_model));
    LayerNormWeights weights = take_layer_norm(reader, "");
    reader.finish();
    return weights;
}

EncoderLayerWeights encoder_layer_weights(const NamedArrays& arrays, std::size_t d_model)
{
    StateDictReader reader(arrays, with_d_model("an encoder layer", d_model), sizes_of(d_model));
    EncoderLayerWeights weights = take_encoder_layer(reader, "");
    reader.finish();
    return weights;
}

EncoderWeights encoder_weights(const NamedArrays& arrays, std::size_t d_model, std::optional<std::size_t> layers)
{
    StateDictReader reader(arrays, with_d_model("an encoder", d_model), sizes_of(d_model));
    EncoderWeights weights = take_encoder(reader, "", layers);
    reader.finish();
    return weights;
}

AdditiveWeights additive_weights(const NamedArrays& arrays, std::size_t d_q, std::size_t d_k)
{
    StateDictReader reader(arrays, "an additive score", {{"d_q", d_q}, {"d_k", d_k}});
    Matrix query = reader.matrix("query_weights", {1, "d_q"}, {1, "d_hidden"});
    Matrix key = reader.matrix("key_weights", {1, "d_k"}, {1, "d_hidden"});
    AdditiveWeights weights{std::move(query), std::move(key), reader.vector("score_weights", {1, "d_hidden"})};
    reader.finish();
    return weights;
}

ConcatenatedWeights concatenated_weights(const NamedArrays& arrays, std::size_t d_pair)
{
    StateDictReader reader(arrays, "an additive score of concatenated pairs", {{"d_pair", d_pair}});
    Matrix hidden = reader.matrix("hidden_weights", {1, "d_pair"}, {1, "d_hidden"});
    ConcatenatedWeights weights{std::move(hidden), reader.vector("score_weights", {1, "d_hidden"})};
    reader.finish();
    return weights;
}

Matrix bilinear_weights(const NamedArrays& arrays, std::size_t d_q, std::size_t d_k)
{
    StateDictReader reader(arrays, "a bilinear score", {{"d_q", d_q}, {"d_k", d_k}});
    Matrix weights = reader.matrix("bilinear_weights", {1, "d_q"}, {1, "d_k"});
    reader.finish();
    return weights;
}

KerasAttentionWeights keras_attention_weights(const NamedArrays& arrays, const AttentionSizes& sizes)
{
    const std::size_t d_memory = sizes.d_memory.value_or(sizes.d_model);
    StateDictReader reader(
        arrays, "a Keras-style attention",
        {{"d_model", sizes.d_model}, {"d_memory", d_memory}, {"d_value", sizes.d_value.value_or(d_memory)}});
    Matrix query = reader.matrix("query_weights", {1, "d_model"}, {1, "h_d_k"});
    Matrix key = reader.matrix("key_weights", {1, "d_memory"}, {1, "h_d_k"});
    KerasAttentionWeights weights{std::move(query), std::move(key),
                                  reader.matrix("value_weights", {1, "d_value"}, {1, "h_d_v"})};
    reader.finish();
    return weights;
}

// -------------------------------------------------------------------------------------------------------- the way back

NamedArrays state_dict(const MultiHeadWeights& weights)
{
    NamedArrays arrays;
    put_multi_head(arrays, "", weights);
    return arrays;
}

NamedArrays state_dict(const FeedForwardWeights& weights)
{
    NamedArrays arrays;
    put_feed_forward(arrays, "", weights);
    return arrays;
}

NamedArrays state_dict(const LayerNormWeights& weights)
{
    NamedArrays arrays;
    put_layer_norm(arrays, "", weights);
    return arrays;
}

NamedArrays state_dict(const EncoderLayerWeights& weights)
{
    NamedArrays arrays;
    put_encoder_layer(arrays, "", weights);
    return arrays;
}

NamedArrays state_dict(const EncoderWeights& weights)
{
    NamedArrays arrays;
    put_encoder(arrays, "", weights);
    return arrays;
}

} // namespace attn
