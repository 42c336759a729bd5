#pragma once

#include "module.hpp"

#include "attn/reference/layers/decoder.hpp"
#include "attn/reference/models/llama.hpp"

/// The modules of `attn run` with --fast: in float32, each step with the kernel's own numbers.
namespace attn::cli {

/// @param causal  joined with the masks of the input
void encode_layer_fast(const EncoderOptions& options, std::optional<Causal> causal, const ModuleRun& run);
void encode_fast(const EncoderOptions& options, std::optional<Causal> causal, const EncoderWeights& weights,
                 const ModuleRun& run);
void decode_layer_fast(const DecoderOptions& options, std::optional<Causal> causal, const ModuleRun& run);
void llama_fast(const Integers& ids, const LlamaWeights& weights, const LlamaOptions& options, const Trace& trace);

} // namespace attn::cli
