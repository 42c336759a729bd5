#pragma once

#include "attn/core/error.hpp"
#include "attn/reference/layers/decoder.hpp"
#include "attn/reference/layers/embedding.hpp"
#include "attn/reference/layers/experts.hpp"
#include "attn/reference/layers/gated_feed_forward.hpp"
#include "attn/reference/layers/rms_norm.hpp"

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// @file
/// One visitor per struct of weights, `files::visit(weights, prefix, f)`. It calls `f(tensor, parts...)` for each tensor that
/// the weights have, in PyTorch's order:
///
/// - `tensor` is a WeightTensor: what a file calls it, after the prefix, and how it lies there,
/// - `parts` are references to the numbers, Matrix or Vector, const where the weights are. There is one part, except in
///   `in_proj_weight` and `in_proj_bias`, which hold those of queries, keys and values.
///
/// Loading, saving and counting are made of it; so is a step of an optimiser, or sending weights to another machine:
///
///     files::visit(weights, "", [](const files::WeightTensor& tensor, auto&... parts) { ((parts *= 0.9), ...); });
///
/// Here are the visitors of maps, norms, networks, multi-head attention, and the layers and stacks of encoder and decoder.
/// Those of models and of other attentions stand in headers of their own: gpt.hpp, llama.hpp, transformer.hpp, recurrent.hpp,
/// latent_attention.hpp, gated_delta_net.hpp, attention_variants.hpp. Each takes its struct apart by structured bindings, so that
/// a new member does not compile until it is visited.
///
/// A visitor that fills weights from a file must know which layers, norms and biases there are. Where it has a function
/// `begin_part(part, prefix)`, that function is called for each of these before it is visited, and can create it.

namespace attn::files {

/// A tensor as a file has it.
struct WeightTensor {
    std::string name;              ///< PyTorch's: "self_attn.in_proj_weight"
    std::vector<std::string> axes; ///< in letters: "d_model", "3*d_model", "2*h_d_k + h_d_v"
    bool is_transposed = false;    ///< (out, in) in the file and (in, out) here, as PyTorch stores linear maps
};

/// Weights, or const Weights.
template <class T, class Weights>
concept Either = std::same_as<std::remove_const_t<T>, Weights>;

/// What messages call the module that weights are of.
template <class Weights>
inline constexpr std::string_view module_name = "these weights";

/// Calls a visitor's begin_part(), if it has one, for the part that follows.
/// @returns the part, which can be none
template <class Visitor, class Part>
Part& begin_part(Visitor& f, Part& part, const std::string& prefix)
{
    if constexpr (requires { f.begin_part(part, prefix); })
        f.begin_part(part, prefix);
    return part;
}

/// A tensor of biases, of one map or of several.
template <class Visitor, class... Biases>
void visit_bias(Visitor& f, const WeightTensor& tensor, Biases&... biases)
{
    (begin_part(f, biases, tensor.name), ...);
    if ((biases.has_value() && ...))
        f(tensor, *biases...);
    else if ((biases.has_value() || ...))
        throw Error(tensor.name + " holds several biases: give all of them or none");
}

/// A list of layers, each visited by `visit_layer(layer, prefix)`.
template <class Layers, class Visitor, class VisitLayer>
void visit_layers(Layers& layers, const std::string& prefix, Visitor& f, const VisitLayer& visit_layer)
{
    begin_part(f, layers, prefix);
    for (std::size_t i = 0; i < layers.size(); ++i) {
        const std::string of_layer = prefix + std::to_string(i) + ".";
        begin_part(f, layers[i], of_layer);
        visit_layer(layers[i], of_layer);
    }
}

/// Calls the visit() of any weights, which can be declared after this function.
/// @param f     of this namespace, which is looked through for visit() where the weights are known
/// @param more  what else visit() takes, such as the gates of a recurrent cell
template <class Weights, class Visitor, class... More>
void visit_any(Weights& weights, Visitor& f, const More&... more)
{
    constexpr bool has_visit = requires { visit(weights, "", f, more...); };
    static_assert(has_visit, "include the header of attn/files/weights/ that has visit() of these weights");
    if constexpr (has_visit)
        visit(weights, "", f, more...);
}

/// Calls f(tensor, parts...) for each tensor of any weights.
template <class Weights, class Work>
void for_each_tensor(Weights& weights, const Work& f)
{
    const auto visitor = [&f](const WeightTensor& tensor, auto&... parts) { f(tensor, parts...); };
    visit_any(weights, visitor);
}

/// nn.Linear: weight, bias
void visit(Either<LinearWeights> auto& w, const std::string& prefix, auto&& f, const std::string& in = "d_in",
           const std::string& out = "d_out")
{
    auto& [weight, bias] = w;
    f(WeightTensor{prefix + "weight", {out, in}, true}, weight);
    visit_bias(f, {prefix + "bias", {out}}, bias);
}

/// nn.LayerNorm: weight, bias
void visit(Either<LayerNormWeights> auto& w, const std::string& prefix, auto&& f,
           const std::string& features = "d_model")
{
    auto& [gain, bias] = w;
    f(WeightTensor{prefix + "weight", {features}}, gain);
    visit_bias(f, {prefix + "bias", {features}}, bias);
}
template <>
inline constexpr std::string_view module_name<LayerNormWeights> = "a layer norm";

/// nn.Embedding: weight
void visit(Either<EmbeddingWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [table] = w;
    f(WeightTensor{prefix + "weight", {"vocabulary", "d_model"}}, table);
}
template <>
inline constexpr std::string_view module_name<EmbeddingWeights> = "an embedding";

/// nn.RMSNorm: weight
void visit(Either<RmsNormWeights> auto& w, const std::string& prefix, auto&& f, const std::string& features = "d_model")
{
    auto& [gain] = w;
    f(WeightTensor{prefix + "weight", {features}}, gain);
}
template <>
inline constexpr std::string_view module_name<RmsNormWeights> = "an RMS norm";

/// linear1.weight, linear1.bias, linear2.weight, linear2.bias
void visit(Either<FeedForwardWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [hidden, output] = w;
    visit(hidden, prefix + "linear1.", f, "d_model", "d_ff");
    visit(output, prefix + "linear2.", f, "d_ff", "d_model");
}
template <>
inline constexpr std::string_view module_name<FeedForwardWeights> = "a feed-forward network";

/// How a file has the maps of queries, keys and values.
enum class MapsOfHeads {
    packed, ///< one tensor, as nn.MultiheadAttention: in_proj_weight, in_proj_bias
    apart,  ///< a tensor each and one of all biases, as nn.MultiheadAttention where their inputs differ: q_proj_weight
    linear  ///< an nn.Linear each, as most models have them: q_proj.weight, q_proj.bias
};

/// Linear where nn.MultiheadAttention could not hold them: some biases without others, or key/value heads that are shared.
template <class Visitor>
MapsOfHeads maps_of(const MultiHeadWeights& w, const std::string& prefix, Visitor& f)
{
    if constexpr (requires { f.has(prefix); }) {
        if (f.has(prefix + "q_proj.weight"))
            return MapsOfHeads::linear;
        const bool is_apart = f.has(prefix + "q_proj_weight") || (!w.output && !f.has(prefix + "in_proj_weight"));
        return is_apart ? MapsOfHeads::apart : MapsOfHeads::packed;
    } else {
        const bool has_bias = w.query.bias.has_value();
        const Matrix &query = w.query.weight, &key = w.key.weight, &value = w.value.weight;
        if (w.key.bias.has_value() != has_bias || w.value.bias.has_value() != has_bias ||
            (w.output && query.shape(1) != key.shape(1)))
            return MapsOfHeads::linear;
        const bool is_of_one = key.shape(0) == query.shape(0) && value.shape(0) == query.shape(0);
        return w.output && is_of_one ? MapsOfHeads::packed : MapsOfHeads::apart;
    }
}

/// Norms of queries or keys: weight and perhaps bias of one; those of several after 0, 1, …
void visit_head_norms(auto& norms, const std::string& prefix, auto&& f, const std::string& features = "d_k")
{
    begin_part(f, norms, prefix);
    bool is_one = norms.size() == 1;
    if constexpr (requires { f.has(prefix); })
        is_one = f.has(prefix + "weight");
    for (std::size_t i = 0; i < norms.size(); ++i)
        visit(norms[i], is_one ? prefix : prefix + std::to_string(i) + ".", f, features);
}

/// nn.MultiheadAttention: in_proj_weight or q_proj_weight, k_proj_weight and v_proj_weight; in_proj_bias;
/// out_proj.weight, out_proj.bias. Heads without an output map can have any size where their maps are not packed.
///
/// Or an nn.Linear each, q_proj, k_proj and v_proj, where heads can have any size and share keys and values; and, as newer
/// models have them, norms of queries and keys, sinks, and a gate: q_norm.weight, k_norm.weight, sinks, g_proj.weight. Where each
/// head has a norm of its own, q_norm.0.weight, q_norm.1.weight, …
void visit(Either<MultiHeadWeights> auto& w, const std::string& prefix, auto&& f)
{
    begin_part(f, w, prefix);
    auto& [query, key, value, output, query_norms, key_norms, sinks, gate] = w;
    const bool has_output = output.has_value();
    const MapsOfHeads maps = maps_of(w, prefix, f);
    std::string merged = "d_model";
    if (maps == MapsOfHeads::linear) {
        merged = "h_d_v";
        visit(query, prefix + "q_proj.", f, "d_model", "h_d_k");
        visit(key, prefix + "k_proj.", f, "d_memory", "g_d_k");
        visit(value, prefix + "v_proj.", f, "d_value", "g_d_v");
    } else {
        const std::string keys = has_output ? "d_model" : "h_d_k", values = has_output ? "d_model" : "h_d_v";
        std::string all = has_output || maps == MapsOfHeads::packed ? "3*d_model" : "2*h_d_k + h_d_v";
        if constexpr (requires { f.has_shared_heads(prefix); })
            if (maps == MapsOfHeads::packed && f.has_shared_heads(prefix)) {
                all = "h_d_k + 2*g_d_k";
                merged = "h_d_k";
            }
        if (maps == MapsOfHeads::packed) {
            f(WeightTensor{prefix + "in_proj_weight", {all, "d_model"}, true}, query.weight, key.weight, value.weight);
        } else {
            f(WeightTensor{prefix + "q_proj_weight", {keys, "d_model"}, true}, query.weight);
            f(WeightTensor{prefix + "k_proj_weight", {keys, "d_memory"}, true}, key.weight);
            f(WeightTensor{prefix + "v_proj_weight", {values, "d_value"}, true}, value.weight);
        }
        visit_bias(f, {prefix + "in_proj_bias", {all}}, query.bias, key.bias, value.bias);
    }
    bool is_wide = false;
    if constexpr (requires { f.has_norms_of_all_heads(prefix); })
        is_wide = f.has_norms_of_all_heads(prefix);
    visit_head_norms(query_norms, prefix + "q_norm.", f, is_wide ? "h_d_k" : "d_k");
    visit_head_norms(key_norms, prefix + "k_norm.", f, is_wide ? "g_d_k" : "d_k");
    if (has_output)
        visit(*output, prefix + "out_proj.", f, merged, "d_model");
    if (sinks)
        f(WeightTensor{prefix + "sinks", {"h"}}, *sinks);
    if (begin_part(f, gate, prefix + "g_proj."))
        visit(*gate, prefix + "g_proj.", f, "d_model", has_output ? merged : "h_d_v");
}
template <>
inline constexpr std::string_view module_name<MultiHeadWeights> = "a multi-head attention";

/// gate_proj.weight, up_proj.weight, down_proj.weight, and biases where there are some, as Llama's MLP has them
void visit(Either<GatedFeedForwardWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [gate, up, down] = w;
    visit(gate, prefix + "gate_proj.", f, "d_model", "d_ff");
    visit(up, prefix + "up_proj.", f, "d_model", "d_ff");
    visit(down, prefix + "down_proj.", f, "d_ff", "d_model");
}
template <>
inline constexpr std::string_view module_name<GatedFeedForwardWeights> = "a gated feed-forward network";

/// router.weight, router.bias, router.e_score_correction_bias; those of each expert after experts.0, experts.1, …; those of
/// the shared expert after shared_expert, and shared_expert_gate.weight. Biases, and what is shared, where there are some.
void visit(Either<ExpertsWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [router, correction_bias, experts, shared_expert, shared_expert_gate] = w;
    visit(router, prefix + "router.", f, "d_model", "experts");
    visit_bias(f, {prefix + "router.e_score_correction_bias", {"experts"}}, correction_bias);
    visit_layers(experts, prefix + "experts.", f,
                 [&](auto& expert, const std::string& of_expert) { visit(expert, of_expert, f); });
    if (begin_part(f, shared_expert, prefix + "shared_expert."))
        visit(*shared_expert, prefix + "shared_expert.", f);
    if (begin_part(f, shared_expert_gate, prefix + "shared_expert_gate."))
        visit(*shared_expert_gate, prefix + "shared_expert_gate.", f, "d_model", "one");
}
template <>
inline constexpr std::string_view module_name<ExpertsWeights> = "a mixture of experts";

/// nn.TransformerEncoderLayer: those of attention after self_attn, of the feed-forward network, and of norm1 and norm2
void visit(Either<EncoderLayerWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [self_attention, feed_forward, norm1, norm2] = w;
    visit(self_attention, prefix + "self_attn.", f);
    visit(feed_forward, prefix, f);
    visit(norm1, prefix + "norm1.", f);
    visit(norm2, prefix + "norm2.", f);
}
template <>
inline constexpr std::string_view module_name<EncoderLayerWeights> = "an encoder layer";

/// nn.TransformerDecoderLayer: those of an encoder layer, of cross-attention after multihead_attn, and of norm3
void visit(Either<DecoderLayerWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [self_attention, cross_attention, feed_forward, norm1, norm2, norm3] = w;
    visit(self_attention, prefix + "self_attn.", f);
    visit(cross_attention, prefix + "multihead_attn.", f);
    visit(feed_forward, prefix, f);
    visit(norm1, prefix + "norm1.", f);
    visit(norm2, prefix + "norm2.", f);
    visit(norm3, prefix + "norm3.", f);
}
template <>
inline constexpr std::string_view module_name<DecoderLayerWeights> = "a decoder layer";

/// nn.TransformerEncoder and nn.TransformerDecoder: those of each layer after layers.0, layers.1, …, and of norm where
/// there is one
template <class Stack>
requires Either<Stack, EncoderWeights> || Either<Stack, DecoderWeights>
void visit(Stack& w, const std::string& prefix, auto&& f)
{
    auto& [layers, norm] = w;
    visit_layers(layers, prefix + "layers.", f,
                 [&](auto& layer, const std::string& of_layer) { visit(layer, of_layer, f); });
    if (begin_part(f, norm, prefix + "norm."))
        visit(*norm, prefix + "norm.", f);
}
template <>
inline constexpr std::string_view module_name<EncoderWeights> = "an encoder";
template <>
inline constexpr std::string_view module_name<DecoderWeights> = "a decoder";

} // namespace attn::files
