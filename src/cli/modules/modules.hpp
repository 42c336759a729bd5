#pragma once

#include "attn/layers/encoder.hpp"
#include "attn/models/keras_attention.hpp"
#include "attn/layers/recurrent/gru.hpp"
#include "attn/trace_io/npz.hpp"

#include <optional>
#include <span>
#include <string_view>

namespace attn {

/// What can be run on numbers from a file.
enum class Module {
    attention,
    multi_head_attention,
    feed_forward,
    layer_norm,
    encoder_layer,
    encoder,
    decoder_layer,
    decoder,
    transformer,
    restricted_attention,
    talking_heads_attention,
    gru,
    lstm,
    llama,
    keras_attention
};

/// How attention compares a query with a key.
enum class Score { scaled, dot, additive, concatenated, bilinear };

/// Every option of every module; each takes those that concern it.
struct ModuleOptions {
    Score score = Score::scaled;                          ///< of attention
    Normalization normalization = Normalization::softmax; ///< of attention, unless scaled
    std::optional<double> scale = {};                     ///< of scaled scores
    std::optional<Causal> causal = {};                    ///< besides what else is forbidden; in a decoder, to tokens
    std::size_t heads = 1;
    bool has_output_map = true; ///< of multi-head attention
    HeadPositions positions = HeadPositions::none;
    RotaryOptions rotary = {};
    std::optional<RotaryLayout> llama_layout = {}; ///< of llama; what goes with the names of its weights unless given
    Activation activation = Activation::relu;
    double epsilon = LayerNormOptions{}.epsilon;
    std::optional<double> final_epsilon = {}; ///< of the norm behind a stack; epsilon unless given
    NormPlacement placement = NormPlacement::post;
    std::optional<std::size_t> layers = {};           ///< of a stack; as many as the weights have unless given
    std::optional<std::size_t> radius = {};           ///< of restricted attention, see Neighbourhood
    std::optional<std::size_t> stride = {};           ///< of restricted attention
    ResetGate reset = ResetGate::after_product;       ///< of a GRU
    bool mask_right = false;                          ///< of Keras-style attention: no later keys
    double penalty = KerasAttentionOptions{}.penalty; ///< of Keras-style attention
};

/// An array that a module takes.
struct ModuleInput {
    std::string_view name;
    std::string_view shape; ///< in letters
    bool is_required;
};

/// One module: what it is called, what it does, what it wants.
struct ModuleEntry {
    Module module;
    std::string_view name;    ///< "encoder-layer"
    std::string_view summary; ///< in half a sentence
    std::span<const ModuleInput> inputs;
};

/// All modules, in the order of the enumeration.
std::span<const ModuleEntry> modules();

/// Runs a module on arrays by name: one sequence or a batch, by the number of axes that the tokens have.
///
/// The inputs become steps under their names, and the result is the step `output`.
/// @param module   which
/// @param inputs   see ModuleEntry::inputs; arrays of other names are ignored
/// @param weights  under PyTorch's names, see multi_head_weights() and its like; those of an attention's score as its
///                 trace names them: query_weights, key_weights, score_weights, hidden_weights, bilinear_weights
/// @param options  those that concern the module
/// @param trace    of the run
/// @throws Error         where inputs are missing, of another rank or type, empty, or not finite, where the module does
///                       not take one, or where options contradict each other
/// @throws WeightsError  where weights do not fit
/// @throws ShapeError    where inputs disagree
void run_module(Module module, const NamedArrays& inputs, const NamedArrays& weights, const ModuleOptions& options,
                const Trace& trace);

} // namespace attn
