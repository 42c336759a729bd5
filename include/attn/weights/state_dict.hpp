#pragma once

#include "attn/array.hpp"
#include "attn/models/llama.hpp"
#include "attn/trace_io/npz.hpp"
#include "attn/weights/loader.hpp"
#include "attn/weights/visit.hpp"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// @name Weights under the names of PyTorch's state_dict
///
/// PyTorch stores the weight of a linear map as (d_out, d_in), attn as (d_in, d_out): it is transposed on the way, and
/// nothing else changes. The biases of a layer are all there or all missing (`bias=False`), as in PyTorch's modules.
/// Which tensors a module has is said once, by its visit() in visit.hpp.
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

/// nn.MultiheadAttention
/// @param has_output_map  false for heads that stay side by side: there is no out_proj, and heads can have any size
MultiHeadWeights multi_head_weights(const NamedArrays& arrays, const AttentionSizes& sizes, bool has_output_map = true);
/// linear1 and linear2 of an nn.TransformerEncoderLayer
FeedForwardWeights feed_forward_weights(const NamedArrays& arrays, std::size_t d_model);
/// nn.LayerNorm
LayerNormWeights layer_norm_weights(const NamedArrays& arrays, std::size_t d_model);
/// nn.TransformerEncoderLayer
EncoderLayerWeights encoder_layer_weights(const NamedArrays& arrays, std::size_t d_model);
/// nn.TransformerEncoder
/// @param layers  how many there must be; as many as the arrays have unless given
EncoderWeights encoder_weights(const NamedArrays& arrays, std::size_t d_model, std::optional<std::size_t> layers = {});
/// nn.TransformerDecoderLayer
DecoderLayerWeights decoder_layer_weights(const NamedArrays& arrays, std::size_t d_model);
/// nn.TransformerDecoder
/// @param layers  how many there must be; as many as the arrays have unless given
DecoderWeights decoder_weights(const NamedArrays& arrays, std::size_t d_model, std::optional<std::size_t> layers = {});
/// nn.Transformer
/// @param layers  how many each stack must have; as many as the arrays have unless given
TransformerWeights transformer_weights(const NamedArrays& arrays, std::size_t d_model,
                                       std::optional<std::size_t> layers = {});
/// nn.GRU; as many layers and directions as the arrays have
RecurrentWeights gru_weights(const NamedArrays& arrays, std::size_t d_in);
/// nn.LSTM: the same names, with four gates in place of three
RecurrentWeights lstm_weights(const NamedArrays& arrays, std::size_t d_in);

/// A decoder as Llama has them, and which features of a head its weights rotate together.
struct LlamaCheckpoint {
    LlamaWeights weights;
    RotaryLayout layout; ///< halves under Hugging Face's names, pairs under others
};

/// Under the names of Hugging Face's LlamaForCausalLM, of llama.cpp, or of llama2.c: see llama_families. An output map
/// that equals the embedding is tied.
LlamaCheckpoint llama_weights(const NamedArrays& arrays);

/// @}

/// @name Weights that PyTorch has no module for
/// @{
TalkingHeadsWeights talking_heads_weights(const NamedArrays& arrays, std::size_t d_model);
AdditiveWeights additive_weights(const NamedArrays& arrays, std::size_t d_q, std::size_t d_k);
/// @param d_pair  d_q + d_k
ConcatenatedWeights concatenated_weights(const NamedArrays& arrays, std::size_t d_pair);
Matrix bilinear_weights(const NamedArrays& arrays, std::size_t d_q, std::size_t d_k);
KerasAttentionWeights keras_attention_weights(const NamedArrays& arrays, const AttentionSizes& sizes);
/// @}

/// A visitor that collects the tensors of weights under PyTorch's names.
class StateDictWriter {
public:
    template <class... Parts>
    void operator()(const StoredTensor& tensor, const Parts&... parts)
    {
        (append(tensor, parts), ...);
    }

    /// @name Refuse what PyTorch's modules can't hold
    /// @{
    void begin_part(const MultiHeadWeights& weights, const std::string& prefix) const;
    void begin_part(const RecurrentWeights& weights, const std::string& prefix) const;
    /// @}

    NamedArrays arrays;

private:
    void append(const StoredTensor& tensor, const Matrix& part);
    void append(const StoredTensor& tensor, const Vector& part);
};

/// The tensors of any weights that visit() takes, for write_weights(). Llama's have Hugging Face's names; no feature
/// changes its place, so that the rotary layout stays what it is.
/// @throws Error where PyTorch's module can't hold them: multi-head attention without an output map or with heads of
///         another size than d_model / h, recurrent layers that differ in directions, biases or d_hidden
template <class Weights>
NamedArrays state_dict(const Weights& weights)
{
    StateDictWriter writer;
    visit(weights, "", writer);
    return std::move(writer.arrays);
}

/// A learned tensor: what a file calls it, and its shape there.
struct Parameter {
    std::string name;
    Shape shape;

    std::size_t count() const { return element_count(shape); }
};

/// The learned tensors of any weights that visit() takes, in PyTorch's order.
template <class Weights>
std::vector<Parameter> parameters(const Weights& weights);

/// How many numbers they hold together.
std::size_t total(const std::vector<Parameter>& parameters);

} // namespace attn
