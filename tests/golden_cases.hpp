#pragma once

#include "golden.hpp"

#include <vector>

/// The cases of each golden, which the golden's test makes.

/// 5 attention functions, 4 sizes, 4 masks; see tests/golden/generate.py.
std::vector<GoldenCase> attention_cases();

/// Multi-head attention, encoder layers and encoders; see tests/golden/layers.py.
std::vector<GoldenCase> layer_cases();

/// Decoder layers and whole Transformers; see tests/golden/decoder.py.
std::vector<GoldenCase> decoder_cases();

/// The positions, which stand in no module of PyTorch's.
std::vector<GoldenCase> position_cases();

/// Restricted attention and talking heads; see tests/golden/restricted.py.
std::vector<GoldenCase> restricted_cases();

/// Attention with sinks; see tests/golden/sinks.py.
std::vector<GoldenCase> sinks_cases();

/// Mixtures of experts; see tests/golden/experts.py.
std::vector<GoldenCase> experts_cases();

/// Multi-head latent attention; see tests/golden/latent_attention.py.
std::vector<GoldenCase> latent_attention_cases();

/// Gated attention; see tests/golden/gated_attention.py.
std::vector<GoldenCase> gated_attention_cases();

/// Gated DeltaNet; see tests/golden/gated_delta_net.py.
std::vector<GoldenCase> gated_delta_net_cases();
