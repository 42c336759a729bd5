#pragma once

#include "attn/files/weights/gated_delta_net.hpp"
#include "attn/files/weights/latent_attention.hpp"
#include "attn/files/weights/visit.hpp"
#include "attn/reference/models/language_model.hpp"

#include <string>
#include <string_view>
#include <variant>

namespace attn::files {

/// A tensor that a model can lack.
void visit_if_there(auto& part, const WeightTensor& tensor, auto&& f)
{
    if (begin_part(f, part, tensor.name))
        f(tensor, *part);
}

/// A norm that a block can lack.
void visit_norm(auto& norm, const std::string& prefix, auto&& f, const std::string& features = "d_model")
{
    if (begin_part(f, norm, prefix))
        visit(*norm, prefix, f, features);
}

/// What attention is called in a block: linear_attn where it is a gated DeltaNet, as Hugging Face's models have it.
template <class Weights>
inline constexpr std::string_view attention_name = "self_attn.";
template <>
inline constexpr std::string_view attention_name<GatedDeltaNetWeights> = "linear_attn.";

/// norm1, post_norm1, those of attention after self_attn or linear_attn, cross_norm, those after cross_attn, norm2,
/// post_norm2, those of the network after feed_forward, scale1, scale2, distance_bias.weight
void visit(Either<BlockWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [norm1, post_norm1, self_attention, norm2, post_norm2, network, scale1, scale2, cross_attention, cross_norm,
           distance_bias] = w;
    visit_norm(norm1, prefix + "norm1.", f);
    begin_part(f, self_attention, prefix);
    const auto visit_attention = [&]<class Weights>(Weights& any) {
        visit(any, prefix + std::string(attention_name<std::remove_const_t<Weights>>), f);
    };
    std::visit(visit_attention, self_attention);
    visit_norm(post_norm1, prefix + "post_norm1.", f);
    visit_norm(cross_norm, prefix + "cross_norm.", f);
    if (begin_part(f, cross_attention, prefix + "cross_attn."))
        visit(*cross_attention, prefix + "cross_attn.", f);
    visit_norm(norm2, prefix + "norm2.", f);
    begin_part(f, network, prefix + "feed_forward.");
    std::visit([&](auto& any) { visit(any, prefix + "feed_forward.", f); }, network);
    visit_norm(post_norm2, prefix + "post_norm2.", f);
    visit_if_there(scale1, {prefix + "scale1", {"d_model"}}, f);
    visit_if_there(scale2, {prefix + "scale2", {"d_model"}}, f);
    visit_if_there(distance_bias, {prefix + "distance_bias.weight", {"buckets", "h"}}, f);
}
template <>
inline constexpr std::string_view module_name<BlockWeights> = "a block";

/// map.weight, map.bias, and those of the norm after norm
void visit(Either<PredictionHeadWeights> auto& w, const std::string& prefix, auto&& f, const std::string& out)
{
    auto& [map, norm] = w;
    visit(map, prefix + "map.", f, "d_model", out);
    visit(norm, prefix + "norm.", f, out);
}

/// query, and what is there of those of attention, norm, feed_forward and map
void visit(Either<PoolerWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [query, attention, norm, network, map] = w;
    visit_if_there(query, {prefix + "query", {"d_model"}}, f);
    if (begin_part(f, attention, prefix + "attention."))
        visit(*attention, prefix + "attention.", f);
    visit_norm(norm, prefix + "norm.", f);
    if (begin_part(f, network, prefix + "feed_forward."))
        visit(*network, prefix + "feed_forward.", f);
    if (begin_part(f, map, prefix + "map."))
        visit(*map, prefix + "map.", f, "d_model", "d_pooled");
}

/// The table of words: weight
void visit_input(Either<Matrix> auto& table, const std::string& prefix, auto&& f, const std::string& width)
{
    f(WeightTensor{prefix + "embedding.weight", {"vocabulary", width}}, table);
}

/// patch_embedding.weight, patch_embedding.bias, class_token, distillation_token, register_tokens
void visit_input(Either<PatchWeights> auto& w, const std::string& prefix, auto&& f, const std::string&)
{
    auto& [kernel, bias, class_token, distillation_token, register_tokens] = w;
    f(WeightTensor{prefix + "patch_embedding.weight", {"d_model", "channels", "patch_height", "patch_width"}}, kernel);
    visit_bias(f, {prefix + "patch_embedding.bias", {"d_model"}}, bias);
    visit_if_there(class_token, {prefix + "class_token", {"d_model"}}, f);
    visit_if_there(distillation_token, {prefix + "distillation_token", {"d_model"}}, f);
    visit_if_there(register_tokens, {prefix + "register_tokens", {"registers", "d_model"}}, f);
}

/// patch_map.weight, patch_map.bias
void visit_input(Either<LinearWeights> auto& map, const std::string& prefix, auto&& f, const std::string&)
{
    visit(map, prefix + "patch_map.", f, "d_patch", "d_model");
}

/// convolutions.0.weight, whose windows are three frames wide, convolutions.0.bias, convolutions.1.weight, …
void visit_input(Either<std::vector<ConvolutionWeights>> auto& convolutions, const std::string& prefix, auto&& f,
                 const std::string&)
{
    std::string window = "3*channels";
    visit_layers(convolutions, prefix + "convolutions.", f, [&](auto& w, const std::string& of_layer) {
        auto& [kernel, bias] = w;
        f(WeightTensor{of_layer + "weight", {"d_model", window}, true}, kernel);
        visit_bias(f, {of_layer + "bias", {"d_model"}}, bias);
        window = "3*d_model";
    });
}

/// Nothing, where tokens are given.
void visit_input(Either<std::monostate> auto&, const std::string&, auto&&, const std::string&) {}

/// What makes tokens: embedding.weight for instance; then position_embedding.weight, token_type_embedding.weight, embedding_norm,
/// embedding_map where embeddings are narrower than tokens, or word_map and output_map, distance_bias.weight, those of each
/// layer after layers.0, layers.1, …, of norm, of prediction_head, output.weight where it is not tied, and output.bias and
/// those of pooler where there are some
void visit(Either<LanguageModelWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [embedding, positions, token_types, embedding_norm, embedding_map, layers, norm, prediction_head, output,
           output_bias, pooler, word_map, output_map, distance_bias] = w;
    begin_part(f, embedding, prefix);
    begin_part(f, embedding_map, prefix + "embedding_map.");
    begin_part(f, word_map, prefix + "word_map.");
    const std::string width = embedding_map ? "d_embedding" : "d_model";
    const std::string of_words = word_map ? "d_embedding" : width;
    std::visit([&](auto& any) { visit_input(any, prefix, f, of_words); }, embedding);
    if (word_map)
        visit(*word_map, prefix + "word_map.", f, of_words, "d_model");
    visit_if_there(positions, {prefix + "position_embedding.weight", {"n_max", width}}, f);
    visit_if_there(token_types, {prefix + "token_type_embedding.weight", {"types", width}}, f);
    visit_norm(embedding_norm, prefix + "embedding_norm.", f, width);
    if (embedding_map)
        visit(*embedding_map, prefix + "embedding_map.", f, width, "d_model");
    visit_if_there(distance_bias, {prefix + "distance_bias.weight", {"buckets", "h"}}, f);
    visit_layers(layers, prefix + "layers.", f,
                 [&](auto& layer, const std::string& of_layer) { visit(layer, of_layer, f); });
    visit_norm(norm, prefix + "norm.", f);
    if (begin_part(f, output_map, prefix + "output_map."))
        visit(*output_map, prefix + "output_map.", f, "d_model", of_words);
    if (begin_part(f, prediction_head, prefix + "prediction_head."))
        visit(*prediction_head, prefix + "prediction_head.", f, width);
    visit_if_there(output, {prefix + "output.weight", {"vocabulary", of_words}, true}, f);
    visit_bias(f, {prefix + "output.bias", {"vocabulary"}}, output_bias);
    visit(pooler, prefix + "pooler.", f);
}
template <>
inline constexpr std::string_view module_name<LanguageModelWeights> = "a language model";

} // namespace attn::files
