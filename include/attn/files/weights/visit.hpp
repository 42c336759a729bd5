#pragma once

#include "attn/core/error.hpp"
#include "attn/reference/attention/additive.hpp"
#include "attn/reference/layers/embedding.hpp"
#include "attn/reference/layers/gated_feed_forward.hpp"
#include "attn/reference/layers/recurrent/recurrent.hpp"
#include "attn/reference/layers/rms_norm.hpp"
#include "attn/reference/layers/talking_heads.hpp"
#include "attn/reference/models/gpt.hpp"
#include "attn/reference/models/greedy_decode.hpp"
#include "attn/reference/models/keras_attention.hpp"
#include "attn/reference/models/transformer.hpp"

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

/// @file
/// One visitor per struct of weights, `files::visit(weights, prefix, f)`. It calls `f(tensor, parts...)` for each tensor that
/// the weights have, in PyTorch's order:
///
/// - `tensor` is a WeightTensor: what a file calls it, after the prefix, and how it lies there,
/// - `parts` are references to the numbers, Matrix or Vector, const where the weights are. There is one part, except in
///   `in_proj_weight` and `in_proj_bias`, which hold those of queries, keys and values.
///
/// Loading, saving and counting are made of it; so is a step of an optimiser, or sending weights to another machine:
///
///     files::visit(weights, "", [](const files::WeightTensor& tensor, auto&... parts) { ((parts *= 0.9), ...); });
///
/// A visitor that fills weights from a file must know which layers, norms and biases there are. Where it has a function
/// `begin_part(part, prefix)`, that function is called for each of these before it is visited, and can create it.

namespace attn::files {

/// A tensor as a file has it.
struct WeightTensor {
    std::string name;              ///< PyTorch's: "self_attn.in_proj_weight"
    std::vector<std::string> axes; ///< in letters: "d_model", "3*d_model", "2*h_d_k + h_d_v"
    bool is_transposed = false;    ///< (out, in) in the file and (in, out) here, as PyTorch stores linear maps
};

/// Weights, or const Weights.
template <class T, class Weights>
concept Either = std::same_as<std::remove_const_t<T>, Weights>;

/// Calls a visitor's begin_part(), if it has one, for the part that follows.
template <class Visitor, class Part>
void begin_part(Visitor& f, Part& part, const std::string& prefix)
{
    if constexpr (requires { f.begin_part(part, prefix); })
        f.begin_part(part, prefix);
}

/// A tensor of biases, of one map or of several.
template <class Visitor, class... Biases>
void visit_bias(Visitor& f, const WeightTensor& tensor, Biases&... biases)
{
    (begin_part(f, biases, tensor.name), ...);
    if ((biases.has_value() && ...))
        f(tensor, *biases...);
    else if ((biases.has_value() || ...))
        throw Error(tensor.name + " holds several biases: give all of them or none");
}

/// A list of layers, each visited by `visit_layer(layer, prefix)`.
template <class Layers, class Visitor, class VisitLayer>
void visit_layers(Layers& layers, const std::string& prefix, Visitor& f, const VisitLayer& visit_layer)
{
    begin_part(f, layers, prefix);
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const std::string of_layer = prefix + std::to_string(i) + ".";
        begin_part(f, layers[i], of_layer);
        visit_layer(layers[i], of_layer);
    }
}

/// nn.Linear: weight, bias
void visit(Either<LinearWeights> auto& w, const std::string& prefix, auto&& f, const std::string& in = "d_in",
           const std::string& out = "d_out")
{
    f(WeightTensor{prefix + "weight", {out, in}, true}, w.weight);
    visit_bias(f, {prefix + "bias", {out}}, w.bias);
}

/// nn.LayerNorm: weight, bias
void visit(Either<LayerNormWeights> auto& w, const std::string& prefix, auto&& f)
{
    f(WeightTensor{prefix + "weight", {"d_model"}}, w.gain);
    visit_bias(f, {prefix + "bias", {"d_model"}}, w.bias);
}

/// nn.Embedding: weight
void visit(Either<EmbeddingWeights> auto& w, const std::string& prefix, auto&& f)
{
    f(WeightTensor{prefix + "weight", {"vocabulary", "d_model"}}, w.table);
}

/// nn.RMSNorm: weight
void visit(Either<RmsNormWeights> auto& w, const std::string& prefix, auto&& f, const std::string& features = "d_model")
{
    f(WeightTensor{prefix + "weight", {features}}, w.gain);
}

/// linear1.weight, linear1.bias, linear2.weight, linear2.bias
void visit(Either<FeedForwardWeights> auto& w, const std::string& prefix, auto&& f)
{
    visit(w.hidden, prefix + "linear1.", f, "d_model", "d_ff");
    visit(w.output, prefix + "linear2.", f, "d_ff", "d_model");
}

/// How a file has the maps of queries, keys and values.
enum class MapsOfHeads {
    packed, ///< one tensor, as nn.MultiheadAttention: in_proj_weight, in_proj_bias
    apart,  ///< a tensor each and one of all biases, as nn.MultiheadAttention where their inputs differ: q_proj_weight
    linear  ///< an nn.Linear each, as most models have them: q_proj.weight, q_proj.bias
};

/// Linear where nn.MultiheadAttention could not hold them: some biases without others, or key/value heads that are shared.
template <class Visitor>
MapsOfHeads maps_of(const MultiHeadWeights& w, const std::string& prefix, Visitor& f)
{
    if constexpr (requires { f.has(prefix); }) {
        if (f.has(prefix + "q_proj.weight"))
            return MapsOfHeads::linear;
        const bool is_apart = f.has(prefix + "q_proj_weight") || (!w.output && !f.has(prefix + "in_proj_weight"));
        return is_apart ? MapsOfHeads::apart : MapsOfHeads::packed;
    } else {
        const bool has_bias = w.query.bias.has_value();
        const Matrix &query = w.query.weight, &key = w.key.weight, &value = w.value.weight;
        if (w.key.bias.has_value() != has_bias || w.value.bias.has_value() != has_bias ||
            (w.output && query.shape(1) != key.shape(1)))
            return MapsOfHeads::linear;
        const bool is_of_one = key.shape(0) == query.shape(0) && value.shape(0) == query.shape(0);
        return w.output && is_of_one ? MapsOfHeads::packed : MapsOfHeads::apart;
    }
}

/// nn.MultiheadAttention: in_proj_weight or q_proj_weight, k_proj_weight and v_proj_weight; in_proj_bias;
/// out_proj.weight, out_proj.bias. Heads without an output map can have any size where their maps are not packed.
///
/// Or an nn.Linear each, q_proj, k_proj and v_proj, where heads can have any size and share keys and values; and, as newer
/// models have them, norms of queries and keys: q_norm.weight, k_norm.weight.
void visit(Either<MultiHeadWeights> auto& w, const std::string& prefix, auto&& f)
{
    begin_part(f, w, prefix);
    const bool has_output = w.output.has_value();
    const MapsOfHeads maps = maps_of(w, prefix, f);
    std::string merged = "d_model";
    if (maps == MapsOfHeads::linear) {
        merged = "h_d_v";
        visit(w.query, prefix + "q_proj.", f, "d_model", "h_d_k");
        visit(w.key, prefix + "k_proj.", f, "d_memory", "g_d_k");
        visit(w.value, prefix + "v_proj.", f, "d_value", "g_d_v");
    } else {
        const std::string keys = has_output ? "d_model" : "h_d_k", values = has_output ? "d_model" : "h_d_v";
        std::string all = has_output || maps == MapsOfHeads::packed ? "3*d_model" : "2*h_d_k + h_d_v";
        if constexpr (requires { f.has_shared_heads(prefix); })
            if (maps == MapsOfHeads::packed && f.has_shared_heads(prefix)) {
                all = "h_d_k + 2*g_d_k";
                merged = "h_d_k";
            }
        if (maps == MapsOfHeads::packed) {
            f(WeightTensor{prefix + "in_proj_weight", {all, "d_model"}, true}, w.query.weight, w.key.weight,
              w.value.weight);
        } else {
            f(WeightTensor{prefix + "q_proj_weight", {keys, "d_model"}, true}, w.query.weight);
            f(WeightTensor{prefix + "k_proj_weight", {keys, "d_memory"}, true}, w.key.weight);
            f(WeightTensor{prefix + "v_proj_weight", {values, "d_value"}, true}, w.value.weight);
        }
        visit_bias(f, {prefix + "in_proj_bias", {all}}, w.query.bias, w.key.bias, w.value.bias);
    }
    if (w.query_norm)
        visit(*w.query_norm, prefix + "q_norm.", f, "d_k");
    if (w.key_norm)
        visit(*w.key_norm, prefix + "k_norm.", f, "d_k");
    if (has_output)
        visit(*w.output, prefix + "out_proj.", f, merged, "d_model");
}

/// gate_proj.weight, up_proj.weight, down_proj.weight, and biases where there are some, as Llama's MLP has them
void visit(Either<GatedFeedForwardWeights> auto& w, const std::string& prefix, auto&& f)
{
    visit(w.gate, prefix + "gate_proj.", f, "d_model", "d_ff");
    visit(w.up, prefix + "up_proj.", f, "d_model", "d_ff");
    visit(w.down, prefix + "down_proj.", f, "d_ff", "d_model");
}

/// nn.TransformerEncoderLayer: those of attention after self_attn, of the feed-forward network, and of norm1 and norm2
void visit(Either<EncoderLayerWeights> auto& w, const std::string& prefix, auto&& f)
{
    visit(w.self_attention, prefix + "self_attn.", f);
    visit(w.feed_forward, prefix, f);
    visit(w.norm1, prefix + "norm1.", f);
    visit(w.norm2, prefix + "norm2.", f);
}

/// nn.TransformerDecoderLayer: those of an encoder layer, of cross-attention after multihead_attn, and of norm3
void visit(Either<DecoderLayerWeights> auto& w, const std::string& prefix, auto&& f)
{
    visit(w.self_attention, prefix + "self_attn.", f);
    visit(w.cross_attention, prefix + "multihead_attn.", f);
    visit(w.feed_forward, prefix, f);
    visit(w.norm1, prefix + "norm1.", f);
    visit(w.norm2, prefix + "norm2.", f);
    visit(w.norm3, prefix + "norm3.", f);
}

/// nn.TransformerEncoder and nn.TransformerDecoder: those of each layer after layers.0, layers.1, …, and of norm where
/// there is one
template <class Stack>
requires Either<Stack, EncoderWeights> || Either<Stack, DecoderWeights>
void visit(Stack& w, const std::string& prefix, auto&& f)
{
    visit_layers(w.layers, prefix + "layers.", f,
                 [&](auto& layer, const std::string& of_layer) { visit(layer, of_layer, f); });
    begin_part(f, w.norm, prefix + "norm.");
    if (w.norm)
        visit(*w.norm, prefix + "norm.", f);
}

/// nn.Transformer: those of both stacks after encoder and decoder
void visit(Either<TransformerWeights> auto& w, const std::string& prefix, auto&& f)
{
    visit(w.encoder, prefix + "encoder.", f);
    visit(w.decoder, prefix + "decoder.", f);
}

/// table (vocabulary, d_model), and those of a Transformer after transformer
void visit(Either<TranslatorWeights> auto& w, const std::string& prefix, auto&& f)
{
    f(WeightTensor{prefix + "table", {"vocabulary", "d_model"}}, w.table);
    visit(w.transformer, prefix + "transformer.", f);
}

/// token_embedding.weight, position_embedding.weight, those of each layer after layers.0, layers.1, …, of norm, and
/// lm_head.weight where the output is not tied
void visit(Either<GptWeights> auto& w, const std::string& prefix, auto&& f)
{
    f(WeightTensor{prefix + "token_embedding.weight", {"vocabulary", "d_model"}}, w.token_embedding);
    f(WeightTensor{prefix + "position_embedding.weight", {"n_max", "d_model"}}, w.position_embedding);
    visit_layers(w.layers, prefix + "layers.", f,
                 [&](auto& layer, const std::string& of_layer) { visit(layer, of_layer, f); });
    visit(w.norm, prefix + "norm.", f);
    const std::string output = prefix + "lm_head.weight";
    begin_part(f, w.output, output);
    if (w.output)
        f(WeightTensor{output, {"vocabulary", "d_model"}, true}, *w.output);
}

/// nn.GRUCell, nn.LSTMCell: weight_ih, weight_hh, bias_ih, bias_hh, each with an ending
/// @param gates  how many maps of d_hidden features stand next to each other: 3 in a GRU, 4 in an LSTM
void visit(Either<RecurrentCellWeights> auto& w, const std::string& prefix, auto&& f, std::size_t gates,
           const std::string& ending = "", const std::string& in = "d_in")
{
    const std::string d_gates = std::to_string(gates) + "*d_hidden";
    f(WeightTensor{prefix + "weight_ih" + ending, {d_gates, in}, true}, w.input.weight);
    f(WeightTensor{prefix + "weight_hh" + ending, {d_gates, "d_hidden"}, true}, w.recurrent.weight);
    visit_bias(f, {prefix + "bias_ih" + ending, {d_gates}}, w.input.bias);
    visit_bias(f, {prefix + "bias_hh" + ending, {d_gates}}, w.recurrent.bias);
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
    for (std::size_t i = 0; i < w.layers.size(); ++i) {
        auto& layer = w.layers[i];
        const std::string ending = "_l" + std::to_string(i);
        if (layer.forward)
            visit(*layer.forward, prefix, f, gates, ending, in);
        if (layer.backward)
            visit(*layer.backward, prefix, f, gates, ending + "_reverse", in);
        in = layer.forward && layer.backward ? "2*d_hidden" : "d_hidden";
    }
}

void visit(Either<RecurrentWeights> auto& w, const std::string& prefix, auto&& f) { visit(w, prefix, f, gates_of(w)); }

/// @name Weights that PyTorch has no module for: names and orientation are those of the trace
/// @{

/// those of nn.MultiheadAttention; talking_scores (h_k, h) and talking_weights (h, h_v)
void visit(Either<TalkingHeadsWeights> auto& w, const std::string& prefix, auto&& f)
{
    visit(w.maps, prefix, f);
    f(WeightTensor{prefix + "talking_scores", {"h_k", "h"}}, w.scores);
    f(WeightTensor{prefix + "talking_weights", {"h", "h_v"}}, w.weights);
}

/// query_weights (d_q, d_hidden), key_weights (d_k, d_hidden), score_weights (d_hidden)
void visit(Either<AdditiveWeights> auto& w, const std::string& prefix, auto&& f)
{
    f(WeightTensor{prefix + "query_weights", {"d_q", "d_hidden"}}, w.query);
    f(WeightTensor{prefix + "key_weights", {"d_k", "d_hidden"}}, w.key);
    f(WeightTensor{prefix + "score_weights", {"d_hidden"}}, w.score);
}

/// hidden_weights (d_q + d_k, d_hidden), score_weights (d_hidden)
void visit(Either<ConcatenatedWeights> auto& w, const std::string& prefix, auto&& f)
{
    f(WeightTensor{prefix + "hidden_weights", {"d_pair", "d_hidden"}}, w.hidden);
    f(WeightTensor{prefix + "score_weights", {"d_hidden"}}, w.score);
}

/// query_weights (d_model, h d_k), key_weights (d_memory, h d_k), value_weights (d_value, h d_v): Keras's dense layers
/// store a map as (in, out), as attn does
void visit(Either<KerasAttentionWeights> auto& w, const std::string& prefix, auto&& f)
{
    f(WeightTensor{prefix + "query_weights", {"d_model", "h_d_k"}}, w.query);
    f(WeightTensor{prefix + "key_weights", {"d_memory", "h_d_k"}}, w.key);
    f(WeightTensor{prefix + "value_weights", {"d_value", "h_d_v"}}, w.value);
}

/// bilinear_weights (d_q, d_k), which are a matrix
void visit(Either<Matrix> auto& w, const std::string& prefix, auto&& f)
{
    f(WeightTensor{prefix + "bilinear_weights", {"d_q", "d_k"}}, w);
}

/// @}

} // namespace attn::files
