// Differential attention.

#include "all_modules.hpp"
#include "shared.hpp"

#include "attn/files/weights/attention_variants.hpp"

#include <memory>

namespace attn::cli {

Module differential_attention_module()
{
    const auto options = std::make_shared<DifferentialAttentionOptions>();
    return {.name = "differential-attention",
            .summary = "multi-head attention whose weights are a difference of two softmaxes",
            .inputs = {required("x", "(b,) n, d_model"), mask_input("mask", "n, n", InputKind::mask), lengths_input()},
            .what_weights =
                "q_proj, k_proj, v_proj, out_proj, lambda_q1, lambda_k1, lambda_q2, lambda_k2, subln, as in "
                "the paper's own program",
            .flags = {heads_flag(options->heads),
                      {"--lambda-init", "L", number(options->lambda_init).like("0.5"),
                       "the constant part of lambda; the paper's layer l has 0.8 - 0.6 exp(-0.3 (l - 1))"},
                      scale_flag(options->scale),
                      mask_flag(options->causal),
                      {"--epsilon", "E", number(options->norm.epsilon, NumberRange::from_zero).like("0.5"),
                       "of the norm of each head, inside the root"}},
            .run = with_tokens("x", [options](const auto& x, const ModuleRun& run) {
                const auto weights = run.load<DifferentialAttentionWeights>(d_model(x));
                DifferentialAttentionOptions masked = *options;
                masked.causal = {};
                masked.mask = joined_mask(pair_axes(x, x, options->heads), options->causal, run);
                differential_attention(x, weights, masked, run.trace);
            })};
}

} // namespace attn::cli
