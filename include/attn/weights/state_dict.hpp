#pragma once

#include "attn/attention/additive.hpp"
#include "attn/error.hpp"
#include "attn/models/keras_attention.hpp"
#include "attn/models/llama.hpp"
#include "attn/layers/recurrent/recurrent.hpp"
#include "attn/layers/talking_heads.hpp"
#include "attn/models/transformer.hpp"
#include "attn/trace_io/npz.hpp"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace attn {

/// Weights that do not fit a module: a line for each tensor that is missing, not expected, or of another shape.
class WeightsError : public Error {
public:
    using Error::Error;
};

/// @name Weights under the names of PyTorch's state_dict
///
/// PyTorch stores the weight of a linear map as (d_out, d_in), attn as (d_in, d_out): it is transposed on the way, and
/// nothing else changes. The biases of a layer are all there or all missing (`bias=False`), as in PyTorch's modules.
///
/// The functions that read throw WeightsError, which lists everything that does not fit at once.
/// @{

/// Reads the tensors of a .safetensors or .npz file, by the name's ending.
/// @param prefix  takes only the tensors whose names begin with it, without it: "encoder." of a larger model
/// @throws FileError  where the file is damaged or has another ending, or no tensor has that prefix
NamedArrays read_weights(const std::filesystem::path& path, std::string_view prefix = {});

/// Writes a .safetensors or .npz file, by the name's ending, for read_weights() or PyTorch's load_state_dict().
/// @throws FileError  where the file has another ending or can't be written
void write_weights(const std::filesystem::path& path, const NamedArrays& weights);

/// The sizes that the inputs of an attention decide; those of a memory are d_model unless given.
struct AttentionSizes {
    std::size_t d_model;
    std::optional<std::size_t> d_memory = {};
    std::optional<std::size_t> d_value = {};
};

/// nn.MultiheadAttention: in_proj_weight or q_proj_weight, k_proj_weight and v_proj_weight; in_proj_bias; out_proj.weight,
/// out_proj.bias.
/// @param has_output_map  false for heads that stay side by side: there is no out_proj, and heads may have any size
MultiHeadWeights multi_head_weights(const NamedArrays& arrays, const AttentionSizes& sizes, bool has_output_map = true);
/// linear1.weight, linear1.bias, linear2.weight, linear2.bias
FeedForwardWeights feed_forward_weights(const NamedArrays& arrays, std::size_t d_model);
/// nn.LayerNorm: weight, bias
LayerNormWeights layer_norm_weights(const NamedArrays& arrays, std::size_t d_model);
/// nn.TransformerEncoderLayer: those of attention behind self_attn, of the feed-forward network, and of norm1 and norm2
EncoderLayerWeights encoder_layer_weights(const NamedArrays& arrays, std::size_t d_model);
/// nn.TransformerEncoder: those of each layer behind layers.0, layers.1, …, and of norm where there is one
/// @param layers  how many there must be; as many as the arrays have unless given
EncoderWeights encoder_weights(const NamedArrays& arrays, std::size_t d_model, std::optional<std::size_t> layers = {});
/// nn.TransformerDecoderLayer: those of an encoder layer, of cross-attention behind multihead_attn, and of norm3
DecoderLayerWeights decoder_layer_weights(const NamedArrays& arrays, std::size_t d_model);
/// nn.TransformerDecoder: those of each layer behind layers.0, layers.1, …, and of norm where there is one
/// @param layers  how many there must be; as many as the arrays have unless given
DecoderWeights decoder_weights(const NamedArrays& arrays, std::size_t d_model, std::optional<std::size_t> layers = {});
/// nn.Transformer: those of both stacks behind encoder and decoder
/// @param layers  how many each must have; as many as the arrays have unless given
TransformerWeights transformer_weights(const NamedArrays& arrays, std::size_t d_model,
                                       std::optional<std::size_t> layers = {});

/// nn.GRU: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, the same with _reverse where a layer reads both ways, and
/// those of further layers with l1, l2, …; as many layers and directions as the arrays have
RecurrentWeights gru_weights(const NamedArrays& arrays, std::size_t d_in);
/// nn.LSTM: the same names, with four gates in place of three
RecurrentWeights lstm_weights(const NamedArrays& arrays, std::size_t d_in);

/// A decoder as Llama has them, and which features of a head its weights turn together.
struct LlamaCheckpoint {
    LlamaWeights weights;
    RotaryLayout layout; ///< halves under Hugging Face's names, pairs under others
};

/// Under the names of Hugging Face's LlamaForCausalLM (model.embed_tokens.weight, lm_head.weight unless it is tied, and
/// behind model.layers.N: input_layernorm, self_attn.q_proj, mlp.gate_proj and so on), of llama.cpp (token_embd.weight,
/// blk.N.attn_norm, attn_q, ffn_gate), or of llama2.c (tok_embeddings.weight, layers.N.attention_norm, attention.wq,
/// feed_forward.w1), by which of the three embeddings there is. An output map that is the embedding is tied.
LlamaCheckpoint llama_weights(const NamedArrays& arrays);

/// @}

/// @name Weights that PyTorch has no module for: names and orientation are those of the trace
/// @{
/// query_weights (d_q, d_hidden), key_weights (d_k, d_hidden), score_weights (d_hidden)
AdditiveWeights additive_weights(const NamedArrays& arrays, std::size_t d_q, std::size_t d_k);
/// hidden_weights (d_q + d_k, d_hidden), score_weights (d_hidden)
ConcatenatedWeights concatenated_weights(const NamedArrays& arrays, std::size_t d_pair);
/// bilinear_weights (d_q, d_k)
Matrix bilinear_weights(const NamedArrays& arrays, std::size_t d_q, std::size_t d_k);
/// query_weights (d_model, h d_k), key_weights (d_memory, h d_k), value_weights (d_value, h d_v): Keras's dense layers
/// store a map as (in, out), as attn does
KerasAttentionWeights keras_attention_weights(const NamedArrays& arrays, const AttentionSizes& sizes);
/// @}

/// Talking heads: those of nn.MultiheadAttention, and as the trace names them talking_scores (h_k, h) and
/// talking_weights (h, h_v).
/// @throws WeightsError  as above
TalkingHeadsWeights talking_heads_weights(const NamedArrays& arrays, std::size_t d_model);

/// @name The way back
/// @throws Error where a query and key map or heads of another size than d_model / h have no place in PyTorch's module
/// @{
NamedArrays state_dict(const MultiHeadWeights& weights);
NamedArrays state_dict(const FeedForwardWeights& weights);
NamedArrays state_dict(const LayerNormWeights& weights);
NamedArrays state_dict(const EncoderLayerWeights& weights);
NamedArrays state_dict(const EncoderWeights& weights);
NamedArrays state_dict(const DecoderLayerWeights& weights);
NamedArrays state_dict(const DecoderWeights& weights);
NamedArrays state_dict(const TransformerWeights& weights);
NamedArrays state_dict(const TalkingHeadsWeights& weights);
/// Of an nn.GRU or an nn.LSTM, which have the same names.
/// @throws Error where layers differ in directions, biases or d_hidden, or only read backward: PyTorch has no such module
NamedArrays state_dict(const RecurrentWeights& weights);
/// Under Hugging Face's names; no feature changes its place, so that the rotary layout stays what it is.
NamedArrays state_dict(const LlamaWeights& weights);
/// @}

} // namespace attn
