#pragma once

#include "attn/files/weights/latent_attention.hpp"
#include "attn/files/weights/visit.hpp"
#include "attn/reference/models/language_model.hpp"

#include <string>
#include <string_view>
#include <variant>

namespace attn::files {

/// A norm that a block can lack.
void visit_norm(auto& norm, const std::string& prefix, auto&& f)
{
    begin_part(f, norm, prefix);
    if (norm)
        visit(*norm, prefix, f);
}

/// norm1, post_norm1, those of attention after self_attn, norm2, post_norm2, those of the network after feed_forward
void visit(Either<BlockWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [norm1, post_norm1, self_attention, norm2, post_norm2, network] = w;
    visit_norm(norm1, prefix + "norm1.", f);
    begin_part(f, self_attention, prefix + "self_attn.");
    std::visit([&](auto& any) { visit(any, prefix + "self_attn.", f); }, self_attention);
    visit_norm(post_norm1, prefix + "post_norm1.", f);
    visit_norm(norm2, prefix + "norm2.", f);
    begin_part(f, network, prefix + "feed_forward.");
    std::visit([&](auto& any) { visit(any, prefix + "feed_forward.", f); }, network);
    visit_norm(post_norm2, prefix + "post_norm2.", f);
}
template <>
inline constexpr std::string_view module_name<BlockWeights> = "a block";

/// map.weight, map.bias, and those of the norm after norm
void visit(Either<PredictionHeadWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [map, norm] = w;
    visit(map, prefix + "map.", f, "d_model", "d_model");
    visit(norm, prefix + "norm.", f);
}

/// A table that a model can lack.
void visit_table(auto& table, const WeightTensor& tensor, auto&& f)
{
    begin_part(f, table, tensor.name);
    if (table)
        f(tensor, *table);
}

/// embedding.weight, position_embedding.weight, token_type_embedding.weight, embedding_norm, those of each layer after
/// layers.0, layers.1, …, of norm, of prediction_head, output.weight where it is not tied, and output.bias where there is one
void visit(Either<LanguageModelWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [embedding, positions, token_types, embedding_norm, layers, norm, prediction_head, output, output_bias] = w;
    f(WeightTensor{prefix + "embedding.weight", {"vocabulary", "d_model"}}, embedding);
    visit_table(positions, {prefix + "position_embedding.weight", {"n_max", "d_model"}}, f);
    visit_table(token_types, {prefix + "token_type_embedding.weight", {"types", "d_model"}}, f);
    visit_norm(embedding_norm, prefix + "embedding_norm.", f);
    visit_layers(layers, prefix + "layers.", f,
                 [&](auto& layer, const std::string& of_layer) { visit(layer, of_layer, f); });
    visit_norm(norm, prefix + "norm.", f);
    begin_part(f, prediction_head, prefix + "prediction_head.");
    if (prediction_head)
        visit(*prediction_head, prefix + "prediction_head.", f);
    visit_table(output, {prefix + "output.weight", {"vocabulary", "d_model"}, true}, f);
    visit_bias(f, {prefix + "output.bias", {"vocabulary"}}, output_bias);
}
template <>
inline constexpr std::string_view module_name<LanguageModelWeights> = "a language model";

} // namespace attn::files
