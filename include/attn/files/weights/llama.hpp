#pragma once

#include "attn/files/npz.hpp"
#include "attn/files/weights/visit.hpp"
#include "attn/reference/models/llama.hpp"

#include <array>
#include <string>
#include <string_view>

namespace attn::files {

/// The names of the tensors of a decoder like Llama's in a family of files; each name is followed by ".weight".
struct LlamaNames {
    std::string_view family;
    RotaryLayout layout; ///< which features of a head its weights rotate together
    std::string_view embedding, layers, norm, output;
    std::string_view query, key, value, merged, norm1, gate, up, down, norm2; ///< after a layer's prefix
    std::string_view query_norm, key_norm;
};

inline constexpr std::array llama_families{
    LlamaNames{"Hugging Face's", RotaryLayout::halves, "model.embed_tokens", "model.layers.", "model.norm", "lm_head",
               "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "input_layernorm",
               "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "post_attention_layernorm", "self_attn.q_norm",
               "self_attn.k_norm"},
    LlamaNames{"llama.cpp's", RotaryLayout::pairs, "token_embd", "blk.", "output_norm", "output", "attn_q", "attn_k",
               "attn_v", "attn_output", "attn_norm", "ffn_gate", "ffn_up", "ffn_down", "ffn_norm", "attn_q_norm",
               "attn_k_norm"},
    LlamaNames{"llama2.c's", RotaryLayout::pairs, "tok_embeddings", "layers.", "norm", "output", "attention.wq",
               "attention.wk", "attention.wv", "attention.wo", "attention_norm", "feed_forward.w1", "feed_forward.w3",
               "feed_forward.w2", "ffn_norm", "attention.q_norm", "attention.k_norm"},
};

/// A layer of a decoder like Llama's. Maps have biases, and queries and keys have norms, where the weights have them.
void visit(Either<LlamaLayerWeights> auto& w, const std::string& prefix, auto&& f, const LlamaNames& names)
{
    const auto named = [&](std::string_view name) { return prefix + std::string(name) + "."; };
    const auto map = [&](std::string_view name, auto& linear, const char* in, const char* out) {
        visit(linear, named(name), f, in, out);
    };
    auto& [norm1, self_attention, norm2, feed_forward] = w;
    auto& [query, key, value, output, query_norms, key_norms, sinks, gate_of_heads] = self_attention;
    auto& [gate, up, down] = feed_forward;
    if (!output || sinks || gate_of_heads)
        throw Error("a decoder like Llama's has an output map in each attention, and no sinks and no gate");
    visit(norm1, named(names.norm1), f);
    map(names.query, query, "d_model", "h_d_k");
    map(names.key, key, "d_model", "g_d_k");
    map(names.value, value, "d_model", "g_d_v");
    visit_head_norms(query_norms, named(names.query_norm), f);
    visit_head_norms(key_norms, named(names.key_norm), f);
    map(names.merged, *output, "h_d_v", "d_model");
    visit(norm2, named(names.norm2), f);
    map(names.gate, gate, "d_model", "d_ff");
    map(names.up, up, "d_model", "d_ff");
    map(names.down, down, "d_ff", "d_model");
}

/// A decoder like Llama's: embedding, layers, norm, and an output map where it is not tied.
void visit(Either<LlamaWeights> auto& w, const std::string& prefix, auto&& f,
           const LlamaNames& names = llama_families.front())
{
    const auto named = [&](std::string_view name) { return prefix + std::string(name); };
    auto& [embedding, layers, norm, output] = w;
    f(WeightTensor{named(names.embedding) + ".weight", {"vocabulary", "d_model"}}, embedding);
    visit_layers(layers, named(names.layers), f,
                 [&](auto& layer, const std::string& of_layer) { visit(layer, of_layer, f, names); });
    visit(norm, named(names.norm) + ".", f);
    const std::string output_name = named(names.output) + ".weight";
    if (begin_part(f, output, output_name))
        f(WeightTensor{output_name, {"vocabulary", "d_model"}, true}, *output);
}

/// A decoder like Llama's, and which features of a head its weights rotate together.
struct LlamaCheckpoint {
    LlamaWeights weights;
    RotaryLayout layout;     ///< halves under Hugging Face's names, pairs under others
    std::string_view family; ///< whose names the file has: "llama2.c's"
};

/// Under the names of Hugging Face's LlamaForCausalLM, of llama.cpp, or of llama2.c: see llama_families. An output map that
/// equals the embedding is tied.
/// @throws WeightsError  as load_weights()
LlamaCheckpoint llama_weights(const NamedArrays& arrays);

} // namespace attn::files
