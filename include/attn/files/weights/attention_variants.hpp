#pragma once

#include "attn/files/weights/visit.hpp"
#include "attn/reference/attention/additive.hpp"
#include "attn/reference/layers/differential_attention.hpp"
#include "attn/reference/layers/talking_heads.hpp"
#include "attn/reference/models/keras_attention.hpp"

#include <string>
#include <string_view>

namespace attn::files {

/// @name Weights that PyTorch has no module for: names and orientation are those of the trace
/// @{

/// those of nn.MultiheadAttention; talking_scores (h_k, h) and talking_weights (h, h_v)
void visit(Either<TalkingHeadsWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [maps, scores, weights] = w;
    visit(maps, prefix, f);
    f(WeightTensor{prefix + "talking_scores", {"h_k", "h"}}, scores);
    f(WeightTensor{prefix + "talking_weights", {"h", "h_v"}}, weights);
}
template <>
inline constexpr std::string_view module_name<TalkingHeadsWeights> = "a talking-heads attention";

/// those of nn.MultiheadAttention; lambda_q1, lambda_k1, lambda_q2, lambda_k2 (d_k); subln.weight (d_v): the names of the paper's
/// own program
void visit(Either<DifferentialAttentionWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [maps, q1, k1, q2, k2, norm] = w;
    visit(maps, prefix, f);
    f(WeightTensor{prefix + "lambda_q1", {"d_k"}}, q1);
    f(WeightTensor{prefix + "lambda_k1", {"d_k"}}, k1);
    f(WeightTensor{prefix + "lambda_q2", {"d_k"}}, q2);
    f(WeightTensor{prefix + "lambda_k2", {"d_k"}}, k2);
    visit(norm, prefix + "subln.", f, "d_v");
}
template <>
inline constexpr std::string_view module_name<DifferentialAttentionWeights> = "a differential attention";

/// query_weights (d_q, d_hidden), key_weights (d_k, d_hidden), score_weights (d_hidden)
void visit(Either<AdditiveWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [query, key, score] = w;
    f(WeightTensor{prefix + "query_weights", {"d_q", "d_hidden"}}, query);
    f(WeightTensor{prefix + "key_weights", {"d_k", "d_hidden"}}, key);
    f(WeightTensor{prefix + "score_weights", {"d_hidden"}}, score);
}
template <>
inline constexpr std::string_view module_name<AdditiveWeights> = "an additive score";

/// hidden_weights (d_q + d_k, d_hidden), score_weights (d_hidden)
void visit(Either<ConcatenatedWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [hidden, score] = w;
    f(WeightTensor{prefix + "hidden_weights", {"d_pair", "d_hidden"}}, hidden);
    f(WeightTensor{prefix + "score_weights", {"d_hidden"}}, score);
}
template <>
inline constexpr std::string_view module_name<ConcatenatedWeights> = "an additive score of concatenated pairs";

/// query_weights (d_model, h d_k), key_weights (d_memory, h d_k), value_weights (d_value, h d_v): Keras's dense layers
/// store a map as (in, out), as attn does
void visit(Either<KerasAttentionWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [query, key, value] = w;
    f(WeightTensor{prefix + "query_weights", {"d_model", "h_d_k"}}, query);
    f(WeightTensor{prefix + "key_weights", {"d_memory", "h_d_k"}}, key);
    f(WeightTensor{prefix + "value_weights", {"d_value", "h_d_v"}}, value);
}
template <>
inline constexpr std::string_view module_name<KerasAttentionWeights> = "a Keras-style attention";

/// bilinear_weights (d_q, d_k), which are a matrix
void visit(Either<Matrix> auto& w, const std::string& prefix, auto&& f)
{
    f(WeightTensor{prefix + "bilinear_weights", {"d_q", "d_k"}}, w);
}
template <>
inline constexpr std::string_view module_name<Matrix> = "a bilinear score";

/// @}

} // namespace attn::files
