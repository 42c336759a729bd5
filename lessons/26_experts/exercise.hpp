#pragma once

#include "attn/core/tensor.hpp"

#include <cstddef>

/// What a mixture of experts makes of one token.
/// @param router_logits   (experts)
/// @param expert_outputs  (experts, d_model): what each expert makes of the token
/// @param shared_output   (d_model): what the shared expert makes of it, which every token
///                        has
/// @param top             so many experts of the largest scores are chosen
/// @param is_normalized   true where the scores of those are divided by their sum, as in
///                        Mixtral; false where they are left as they are, as in Qwen2-MoE
/// @return (d_model): the chosen experts' outputs, weighted, and the shared expert's
attn::Vector my_mixture(const attn::Vector& router_logits,
                        const attn::Matrix& expert_outputs,
                        const attn::Vector& shared_output, std::size_t top,
                        bool is_normalized);
