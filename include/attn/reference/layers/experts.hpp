#pragma once

#include "attn/reference/layers/gated_feed_forward.hpp"
#include "attn/reference/layers/linear.hpp"

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace attn {

/// The learned parameters of a mixture of experts.
struct ExpertsWeights {
    LinearWeights router;                       ///< (d_model, experts); Hugging Face calls it `gate` or `router`
    std::optional<Vector> correction_bias = {}; ///< (experts), added to the scores for the choice only; DeepSeek-V3
    std::vector<GatedFeedForwardWeights> experts = {};
    std::optional<GatedFeedForwardWeights> shared_expert = {}; ///< which every token has
    std::optional<LinearWeights> shared_expert_gate = {}; ///< (d_model, 1): how much each token has of it; Qwen2-MoE
};

/// The score of an expert for a token.
enum class ExpertScoring {
    softmax, ///< of the router's logits, over all experts
    sigmoid, ///< of each logit by itself
    logits   ///< the logit itself
};

/// How the scores of the experts that were chosen become their weights.
enum class ExpertNormalization {
    sum,     ///< each over the sum of all; Hugging Face's `norm_topk_prob`
    softmax, ///< softmax over the chosen
    none     ///< they are the scores
};

/// What is multiplied by the weight of an expert.
enum class ExpertWeighting {
    output, ///< what the expert makes of the token
    input   ///< the token that goes into the expert
};

/// @name Their names, as a trace and `attn run experts` have them
/// @{
std::string_view name_of(ExpertScoring scoring);
std::string_view name_of(ExpertNormalization normalization);
std::string_view name_of(ExpertWeighting weighting);
/// @}

/// Groups of neighbouring experts, as those of one machine. Each token chooses among the experts of its best groups only.
///
/// The steps, where `choice_scores` are the scores by which experts are chosen, in G groups of S experts:
///
/// | step         | shape                  | formula                                                     |
/// |--------------|------------------------|-------------------------------------------------------------|
/// | grouped      | ((b,) n, groups, size) | reshape(choice_scores, N, G, S)                             |
/// | group_scores | ((b,) n, groups)       | sum(where(top_k(grouped, BEST), grouped, 0), axis=-1)       |
/// | kept_groups  | ((b,) n, groups)       | top_k(group_scores, KEPT)                                   |
/// | eligible     | ((b,) n, experts)      | where(repeat(kept_groups, S, axis=-1), choice_scores, -inf) |
struct ExpertGroups {
    std::size_t count = 1; ///< the experts are divided evenly among so many
    std::size_t kept = 1;  ///< each token has so many of them
    std::size_t best = 1;  ///< a group's score is the sum of its so many best: 1 in DeepSeek-V2, 2 in DeepSeek-V3
};

/// Options of experts(); as they stand those of Mixtral. Other models have
///
/// | model       | options                                                                                              |
/// |-------------|------------------------------------------------------------------------------------------------------|
/// | Qwen2-MoE   | `{.top = 4, .normalization = none}`, a shared expert with a gate                                      |
/// | Qwen3-MoE   | `{.top = 8}`                                                                                          |
/// | gpt-oss     | `{.top = 4, .scoring = logits, .normalization = softmax, .expert = {quick_gelu, 7, 1}}`               |
/// | DeepSeek-V2 | `{.top = 6, .normalization = none, .scaling_factor = 16, .groups = ExpertGroups{8, 3, 1}}`, a shared expert |
/// | DeepSeek-V3 | `{.top = 8, .scoring = sigmoid, .scaling_factor = 2.5, .groups = ExpertGroups{8, 4, 2}}`, a shared expert, a correction bias |
/// | Llama 4     | `{.top = 1, .scoring = sigmoid, .normalization = none, .weighting = input}`, a shared expert          |
struct ExpertsOptions {
    std::size_t top = 2; ///< how many experts each token has
    ExpertScoring scoring = ExpertScoring::softmax;
    ExpertNormalization normalization = ExpertNormalization::sum;
    double scaling_factor = 1;               ///< of the weights; Hugging Face's `routed_scaling_factor`
    std::optional<ExpertGroups> groups = {}; ///< among which tokens choose first
    ExpertWeighting weighting = ExpertWeighting::output;
    GatedFeedForwardOptions expert = {}; ///< of each expert, and of the shared one
};

/// A mixture of experts: in place of one feed-forward network there are several, a router chooses a few of them for each
/// token, and the result is their sum, weighted by how well they fit the token.
///
/// A network of 8 experts has 8 times the parameters, but a token that has 2 of them costs 2 times the arithmetic only. Here
/// every expert is computed for every token, and those that a token did not choose have the weight 0. That costs more, but each
/// step has the same shape whatever the router chooses, and its formula holds after another choice, too.
///
/// @param x        ((b,) n, d_model)
/// @param weights  router and experts; correction bias, shared expert and its gate
/// @param options  how many experts; how the router's logits become weights; the experts' own
/// @param trace    in the scopes expert.0, expert.1, … the steps of gated_feed_forward(), and in its own, for two experts of
///                 which each token has K:
///
///                 | step              | shape              | formula                                                           |
///                 |-------------------|--------------------|-------------------------------------------------------------------|
///                 | x                 | ((b,) n, d_model)  |                                                                   |
///                 | router_weights    | (d_model, experts) |                                                                   |
///                 | router_logits     | ((b,) n, experts)  | x @ router_weights                                                |
///                 | scores            | ((b,) n, experts)  | softmax(router_logits)                                            |
///                 | chosen            | ((b,) n, experts)  | top_k(scores, K)                                                  |
///                 | chosen_scores     | ((b,) n, experts)  | where(chosen, scores, 0)                                          |
///                 | normalized        | ((b,) n, experts)  | chosen_scores / (sum(chosen_scores, axis=-1, keepdims=True) + 1e-20) |
///                 | weights           | ((b,) n, experts)  | = normalized                                                      |
///                 | expert.0.x        | ((b,) n, d_model)  | = x                                                               |
///                 | expert.0.weighted | ((b,) n, d_model)  | weights[..., 0:1] * output                                        |
///                 | expert.0.mixture  | ((b,) n, d_model)  | = expert.0.weighted                                               |
///                 | expert.1.x        | ((b,) n, d_model)  | = x                                                               |
///                 | expert.1.weighted | ((b,) n, d_model)  | weights[..., 1:2] * output                                        |
///                 | expert.1.mixture  | ((b,) n, d_model)  | expert.0.mixture + weighted                                       |
///                 | routed            | ((b,) n, d_model)  | = expert.1.mixture                                                |
///                 | output            | ((b,) n, d_model)  | = routed                                                          |
///
///                 where = names a step again, `output` in the scope of an expert is its own, and `mixture` is the sum so far.
///                 Of equal scores the first are chosen. 1e-20 is DeepSeek-V3's, for sigmoids that are all 0.
///
///                 The scores are `sigmoid(router_logits)`, or another name of `router_logits`. With a correction bias, the
///                 input `correction_bias` and `choice_scores`, which is `scores + correction_bias`, come after them, and the
///                 choice is made by these. With groups follow the steps that ExpertGroups lists, and `chosen` is
///                 `top_k(eligible, K)`. Normalised by softmax, `chosen_scores` is `where(chosen, scores, -inf)` and
///                 `normalized` is `softmax(chosen_scores)`; without normalisation `weights` is another name of
///                 `chosen_scores`. With a scaling factor, `weights` is `normalized * FACTOR`. Where the
///                 input is weighted, `expert.0.x` is `weights[..., 0:1] * x`, and `mixture` is the sum of `output`.
///
///                 A shared expert stands in the scope shared_expert, and `output` is `routed + shared_expert.output`; with a
///                 gate, `shared_expert_gate_weights`, `shared_expert_gate_logits`, `shared_expert_gate`, which is their
///                 sigmoid, and `gated_shared_expert`, which is `shared_expert_gate * shared_expert.output`, come before it.
/// @return ((b,) n, d_model)
/// @throws ShapeError where x and the weights disagree, or there are not as many experts as the options ask for
/// @see Shazeer et al. 2017, "Outrageously Large Neural Networks"; Jiang et al. 2024, "Mixtral of Experts"; DeepSeek-AI 2024,
///      "DeepSeek-V3 Technical Report", section 2.1.2
template <Sequence T>
T experts(const T& x, const ExpertsWeights& weights, const ExpertsOptions& options = {}, const Trace& trace = {});
ATTN_REFUSE_OTHER_TENSORS(experts);

} // namespace attn
