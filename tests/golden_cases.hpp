#pragma once

#include "golden.hpp"

#include "attn/core/trace.hpp"

#include <functional>
#include <string>
#include <vector>

/// A function of the library on inputs whose every step PyTorch computed.
struct GoldenCase {
    std::string name;                            ///< "encoder_layer.pre.gelu.batch.both"
    Golden steps;                                ///< what it has to give, inputs first
    std::function<void(const attn::Trace&)> run; ///< does it
};

/// 5 attention functions, 4 sizes, 4 masks; see tests/golden/generate.py.
std::vector<GoldenCase> attention_cases(); // in reference/attention/golden.cpp

/// Multi-head attention, encoder layers and encoders; see tests/golden/layers.py.
std::vector<GoldenCase> layer_cases(); // in reference/layers/golden.cpp

/// Decoder layers and whole Transformers; see tests/golden/decoder.py.
std::vector<GoldenCase> decoder_cases(); // in reference/layers/decoder_golden.cpp

/// The positions, which stand in no module of PyTorch's.
std::vector<GoldenCase> position_cases(); // in reference/layers/golden.cpp

/// Restricted attention and talking heads; see tests/golden/restricted.py.
std::vector<GoldenCase> restricted_cases(); // in reference/layers/golden_restricted.cpp

/// Attention with sinks; see tests/golden/sinks.py.
std::vector<GoldenCase> sinks_cases(); // in reference/attention/sinks.cpp

/// Mixtures of experts; see tests/golden/experts.py.
std::vector<GoldenCase> experts_cases(); // in reference/layers/experts.cpp

/// Multi-head latent attention; see tests/golden/latent_attention.py.
std::vector<GoldenCase> latent_attention_cases(); // in reference/layers/latent_attention.cpp

/// Gated attention; see tests/golden/gated_attention.py.
std::vector<GoldenCase> gated_attention_cases(); // in reference/layers/gated_attention.cpp

/// Gated DeltaNet; see tests/golden/gated_delta_net.py.
std::vector<GoldenCase> gated_delta_net_cases(); // in reference/layers/gated_delta_net.cpp
