#pragma once

#include "attn/files/npz.hpp"
#include "attn/files/weights/visit.hpp"
#include "attn/reference/layers/gated_delta_net.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace attn::files {

/// The linear_attn of Hugging Face's Qwen3-Next with each map by itself: in_proj_q, in_proj_k, in_proj_v, in_proj_z, in_proj_b,
/// in_proj_a, which the file holds packed, see delta_net_unpacked(); conv1d.weight, dt_bias, A_log, norm.weight, out_proj.
void visit(Either<GatedDeltaNetWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [query, key, value, gate, beta, decay, kernel, dt_bias, a_log, norm, output] = w;
    visit(query, prefix + "in_proj_q.", f, "d_model", "linear_g_d_k");
    visit(key, prefix + "in_proj_k.", f, "d_model", "linear_g_d_k");
    visit(value, prefix + "in_proj_v.", f, "d_model", "linear_h_d_v");
    visit(gate, prefix + "in_proj_z.", f, "d_model", "linear_h_d_v");
    visit(beta, prefix + "in_proj_b.", f, "d_model", "linear_h");
    visit(decay, prefix + "in_proj_a.", f, "d_model", "linear_h");
    f(WeightTensor{prefix + "conv1d.weight", {"2*linear_g_d_k + linear_h_d_v", "one", "width"}}, kernel);
    f(WeightTensor{prefix + "dt_bias", {"linear_h"}}, dt_bias);
    f(WeightTensor{prefix + "A_log", {"linear_h"}}, a_log);
    visit(norm, prefix + "norm.", f, "linear_d_v");
    visit(output, prefix + "out_proj.", f, "linear_h_d_v", "d_model");
}
template <>
inline constexpr std::string_view module_name<GatedDeltaNetWeights> = "a gated DeltaNet";

/// How many heads a gated DeltaNet has, and how wide each is.
struct DeltaNetHeads {
    std::size_t heads, key_heads, d_k, d_v;
};

/// The tensors with in_proj_qkvz and in_proj_ba, which hold the maps group by group, or in_proj_qkv, which holds them one below
/// the other, taken apart.
/// @throws Error where one is of another shape than the heads say
NamedArrays delta_net_unpacked(NamedArrays arrays, const DeltaNetHeads& heads);

/// The same for the tensors of one layer, which say how wide its heads are; as they are where none is packed.
/// @param key_heads  how many heads queries and keys have, which packed tensors do not say
/// @throws Error where it is missing, or A_log, norm.weight and conv1d.weight do not fit it
NamedArrays delta_net_unpacked(NamedArrays arrays, const std::optional<std::size_t>& key_heads);

} // namespace attn::files
