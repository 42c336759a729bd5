#pragma once

#include "attn/files/weights/visit.hpp"
#include "attn/reference/layers/latent_attention.hpp"

namespace attn::files {

/// The self_attn of Hugging Face's DeepseekV2 and DeepseekV3: q_proj, or q_a_proj, q_a_layernorm and q_b_proj where queries have
/// a latent; kv_a_proj_with_mqa, kv_a_layernorm, kv_b_proj; o_proj. A weight each, and biases where there are some.
void visit(Either<LatentAttentionWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [query, latent, key_value, output, query_latent] = w;
    if (begin_part(f, query_latent, prefix + "q_a_proj.")) {
        auto& [down, norm] = *query_latent;
        visit(down, prefix + "q_a_proj.", f, "d_model", "d_q");
        visit(norm, prefix + "q_a_layernorm.", f, "d_q");
        visit(query, prefix + "q_b_proj.", f, "d_q", "h_d_k");
    } else {
        visit(query, prefix + "q_proj.", f, "d_model", "h_d_k");
    }
    auto& [down, norm] = latent;
    visit(down, prefix + "kv_a_proj_with_mqa.", f, "d_model", "d_c_r");
    visit(norm, prefix + "kv_a_layernorm.", f, "d_c");
    visit(key_value, prefix + "kv_b_proj.", f, "d_c", "h_d_n_v");
    visit(output, prefix + "o_proj.", f, "h_d_v", "d_model");
}
template <>
inline constexpr std::string_view module_name<LatentAttentionWeights> = "a latent attention";

} // namespace attn::files
