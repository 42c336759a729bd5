#pragma once

#include "attn/files/weights/gated_delta_net.hpp"
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

/// What attention is called in a block: linear_attn where it is a gated DeltaNet, as Hugging Face's models have it.
template <class Weights>
inline constexpr std::string_view attention_name = "self_attn.";
template <>
inline constexpr std::string_view attention_name<GatedDeltaNetWeights> = "linear_attn.";

/// norm1, post_norm1, those of attention after self_attn or linear_attn, norm2, post_norm2, those of the network after feed_forward
void visit(Either<BlockWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [norm1, post_norm1, self_attention, norm2, post_norm2, network] = w;
    visit_norm(norm1, prefix + "norm1.", f);
    begin_part(f, self_attention, prefix);
    const auto visit_attention = [&]<class Weights>(Weights& any) {
        visit(any, prefix + std::string(attention_name<std::remove_const_t<Weights>>), f);
    };
    std::visit(visit_attention, self_attention);
    visit_norm(post_norm1, prefix + "post_norm1.", f);
    visit_norm(norm2, prefix + "norm2.", f);
    begin_part(f, network, prefix + "feed_forward.");
    std::visit([&](auto& any) { visit(any, prefix + "feed_forward.", f); }, network);
    visit_norm(post_norm2, prefix + "post_norm2.", f);
}
template <>
inline constexpr std::string_view module_name<BlockWeights> = "a block";

/// embedding.weight, position_embedding.weight, embedding_norm, those of each layer after layers.0, layers.1, …, of norm, and
/// of output where it is not tied
void visit(Either<LanguageModelWeights> auto& w, const std::string& prefix, auto&& f)
{
    auto& [embedding, positions, embedding_norm, layers, norm, output] = w;
    f(WeightTensor{prefix + "embedding.weight", {"vocabulary", "d_model"}}, embedding);
    begin_part(f, positions, prefix + "position_embedding.");
    if (positions)
        f(WeightTensor{prefix + "position_embedding.weight", {"n_max", "d_model"}}, *positions);
    visit_norm(embedding_norm, prefix + "embedding_norm.", f);
    visit_layers(layers, prefix + "layers.", f,
                 [&](auto& layer, const std::string& of_layer) { visit(layer, of_layer, f); });
    visit_norm(norm, prefix + "norm.", f);
    begin_part(f, output, prefix + "output.");
    if (output)
        visit(*output, prefix + "output.", f, "d_model", "vocabulary");
}
template <>
inline constexpr std::string_view module_name<LanguageModelWeights> = "a language model";

} // namespace attn::files
