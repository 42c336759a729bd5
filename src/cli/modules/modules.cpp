#include "modules.hpp"

#include "families.hpp"

#include <array>
#include <cmath>

namespace attn {
namespace {

constexpr ModuleInput token_input{"x", "((b,) n, d_model)", true};
constexpr ModuleInput lengths{"lengths", "(b,)", false};
constexpr ModuleInput bias{"bias", "(n, m)", false};

constexpr std::array attention_inputs{ModuleInput{"queries", "((b,) n, d_k)", true},
                                      ModuleInput{"keys", "((b,) m, d_k)", true},
                                      ModuleInput{"values", "((b,) m, d_v)", true},
                                      ModuleInput{"mask", "((b,) n, m)", false},
                                      lengths,
                                      bias};
constexpr std::array multi_head_inputs{token_input,
                                       ModuleInput{"memory", "((b,) m, d_memory)", false},
                                       ModuleInput{"value_memory", "((b,) m, d_value)", false},
                                       ModuleInput{"mask", "((b,) n, m)", false},
                                       lengths,
                                       bias};
constexpr std::array token_inputs{token_input};
constexpr std::array encoder_inputs{token_input, ModuleInput{"mask", "((b,) n, n)", false}, lengths};
constexpr std::array decoder_inputs{token_input,
                                    ModuleInput{"memory", "((b,) m, d_model)", true},
                                    ModuleInput{"mask", "((b,) n, n)", false},
                                    ModuleInput{"memory_mask", "((b,) n, m)", false},
                                    lengths,
                                    ModuleInput{"memory_lengths", "(b,)", false}};
constexpr std::array transformer_inputs{
    ModuleInput{"source", "((b,) m, d_model)", true}, ModuleInput{"target", "((b,) n, d_model)", true},
    ModuleInput{"source_mask", "((b,) m, m)", false}, ModuleInput{"target_mask", "((b,) n, n)", false},
    ModuleInput{"memory_mask", "((b,) n, m)", false}, ModuleInput{"source_lengths", "(b,)", false},
    ModuleInput{"target_lengths", "(b,)", false}};
constexpr std::array restricted_inputs{ModuleInput{"queries", "((b,) n, d_k)", true},
                                       ModuleInput{"keys", "((b,) n, d_k)", true},
                                       ModuleInput{"values", "((b,) n, d_v)", true}};
constexpr ModuleInput sequence_input{"x", "((b,) n, d_in)", true};
constexpr ModuleInput initial_hidden{"initial_hidden", "(cells, (b,) d_hidden)", false};
constexpr std::array gru_inputs{sequence_input, lengths, initial_hidden};
constexpr std::array lstm_inputs{sequence_input, lengths, initial_hidden,
                                 ModuleInput{"initial_cell", "(cells, (b,) d_hidden)", false}};
constexpr std::array llama_inputs{ModuleInput{"ids", "(n,), whole numbers", true}};
constexpr std::array keras_inputs{token_input, ModuleInput{"memory", "((b,) m, d_memory)", false},
                                  ModuleInput{"value_memory", "((b,) m, d_value)", false},
                                  ModuleInput{"value_mask", "((b,) m), 1 or 0", false},
                                  ModuleInput{"query_mask", "((b,) n), 1 or 0", false}};

/// A module, and how it is run.
struct Runnable {
    ModuleEntry entry;
    void (*run)(const ModuleRun& run);
};

constexpr std::array runnables{
    Runnable{
        {Module::attention, "attention", "queries compared with keys, values mixed in proportion", attention_inputs},
        run_attention},
    Runnable{{Module::multi_head_attention, "multi-head-attention", "nn.MultiheadAttention", multi_head_inputs},
             run_multi_head_attention},
    Runnable{
        {Module::feed_forward, "feed-forward", "linear1, activation, linear2, for each token by itself", token_inputs},
        run_feed_forward},
    Runnable{{Module::layer_norm, "layer-norm", "nn.LayerNorm over the features of each token", token_inputs},
             run_layer_norm},
    Runnable{{Module::encoder_layer, "encoder-layer", "nn.TransformerEncoderLayer", encoder_inputs}, run_encoder_layer},
    Runnable{{Module::encoder, "encoder", "nn.TransformerEncoder", encoder_inputs}, run_encoder},
    Runnable{{Module::decoder_layer, "decoder-layer", "nn.TransformerDecoderLayer", decoder_inputs}, run_decoder_layer},
    Runnable{{Module::decoder, "decoder", "nn.TransformerDecoder", decoder_inputs}, run_decoder},
    Runnable{{Module::transformer, "transformer", "nn.Transformer", transformer_inputs}, run_transformer},
    Runnable{{Module::restricted_attention, "restricted-attention", "queries compared with the keys around them only",
              restricted_inputs},
             run_restricted_attention},
    Runnable{{Module::talking_heads_attention, "talking-heads-attention",
              "multi-head attention whose heads are mixed before softmax and after it", encoder_inputs},
             run_talking_heads_attention},
    Runnable{{Module::gru, "gru", "nn.GRU: layers and directions are those of the weights", gru_inputs}, run_gru},
    Runnable{{Module::lstm, "lstm", "nn.LSTM: layers and directions are those of the weights", lstm_inputs}, run_lstm},
    Runnable{{Module::llama, "llama", "a decoder as Llama has them: Hugging Face's LlamaForCausalLM", llama_inputs},
             run_llama},
    Runnable{{Module::keras_attention, "keras-attention", "heads without biases or W^o; masks subtract a large number",
              keras_inputs},
             run_keras_attention},
};

constexpr auto entries = [] {
    std::array<ModuleEntry, runnables.size()> all{};
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = runnables[i].entry;
    return all;
}();

} // namespace

std::span<const ModuleEntry> modules() { return entries; }

void run_module(Module module, const NamedArrays& arrays, const NamedArrays& weights, const ModuleOptions& options,
                const Trace& trace)
{
    if (!std::isfinite(options.scale.value_or(1)) ||
        !std::isfinite(options.rotary.base + options.epsilon + options.final_epsilon.value_or(0) + options.penalty))
        throw Error("scale, rotary base, epsilon and penalty have to be finite numbers");
    const Runnable& runnable = runnables[static_cast<std::size_t>(module)];
    const Inputs inputs(arrays, runnable.entry.inputs);
    runnable.run({inputs, weights, options, trace});
}

} // namespace attn
