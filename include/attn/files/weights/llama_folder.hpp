#pragma once

#include "attn/files/tokenizer.hpp"
#include "attn/reference/models/llama.hpp"

#include <filesystem>

namespace attn::files {

/// A decoder as it is published: weights, configuration and vocabulary.
struct LlamaFolder {
    LlamaWeights weights;
    LlamaOptions options;
    Tokenizer tokenizer;
};

/// Reads a folder with
///
/// - `config.json`: n_heads (or num_attention_heads), and optionally n_kv_heads (num_key_value_heads), rope_theta and
///   rms_eps (rms_norm_eps),
/// - the weights, the only `.npz` or `.safetensors`, under any of the names of llama_weights(),
/// - the vocabulary, the only `tok*.json`, see read_tokenizer().
///
/// @throws FileError     where one is missing, there are several, or one is damaged
/// @throws WeightsError  where the tensors are not a decoder
/// @throws Error         where weights, configuration and vocabulary disagree
LlamaFolder read_llama_folder(const std::filesystem::path& folder);

} // namespace attn::files
