// From the settings of a configuration to the description of the layers.

#include "settings.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace attn::files {
namespace {

std::string text(std::size_t number) { return std::to_string(number); }

/// Whether a layer's queries and keys are rotated.
bool is_rotary(const Settings& settings, std::size_t layer, std::size_t layers)
{
    if (settings.positions != HeadPositions::rotary)
        return false;
    if (settings.rotary_layers && !settings.rotary_layers->empty()) {
        if (settings.rotary_layers->size() != layers)
            throw Error("no_rope_layers lists " + text(settings.rotary_layers->size()) + " layers, and there are " +
                        text(layers));
        return (*settings.rotary_layers)[layer] != 0;
    }
    return !settings.rotary_interval || (layer + 1) % *settings.rotary_interval != 0;
}

bool is_sliding(const std::string& type, const Settings& settings)
{
    if ((settings.states && type == "linear_attention") || (settings.chunk && type == "chunked_attention"))
        return false;
    if (type != "sliding_attention" && type != "full_attention")
        throw Error("layer_types has \"" + type + "\", expected full_attention or sliding_attention");
    return type == "sliding_attention";
}

/// Whether a layer has a window: as layer_types says, or by the rule of the family.
bool is_windowed(const Settings& settings, std::size_t layer, std::size_t layers, bool has_rotary)
{
    const auto& [types, cycle] = std::tie(settings.layer_types, settings.layer_types_cycle);
    if (types) {
        if (types->size() != layers)
            throw Error("layer_types lists " + text(types->size()) + " layers, and there are " + text(layers));
        return is_sliding((*types)[layer], settings);
    }
    if (cycle)
        return is_sliding((*cycle)[layer % cycle->size()], settings);
    if (settings.full_interval)
        return layer % *settings.full_interval != 0;
    if (settings.window_pattern)
        return settings.window && (layer + 1) % *settings.window_pattern != 0;
    if (settings.uses_window_without_rotary)
        return *settings.uses_window_without_rotary && settings.window && !has_rotary;
    return settings.window && settings.uses_window.value_or(true) && layer >= settings.first_windowed_layer.value_or(0);
}

std::optional<std::size_t> window_of(const Settings& settings, std::size_t layer, std::size_t layers, bool has_rotary)
{
    if (!is_windowed(settings, layer, layers, has_rotary))
        return std::nullopt;
    if (!settings.window || *settings.window == 0 || !settings.uses_window.value_or(true))
        throw Error("layer " + text(layer) + " has a window, and sliding_window does not say how wide it is");
    return settings.window;
}

/// Whether a layer attends within chunks: as layer_types says, or where its positions rotate.
std::optional<std::size_t> chunk_of(const Settings& settings, std::size_t layer, bool has_rotary)
{
    const auto& types = settings.layer_types;
    const bool has_chunks = types ? (*types)[layer] == "chunked_attention" : has_rotary;
    return has_chunks ? settings.chunk : std::nullopt;
}

std::optional<double> scale_of(const Settings& settings, std::size_t layer, std::size_t head_width)
{
    std::optional<double> scale = settings.scale;
    if (settings.scale_width)
        scale = 1 / std::sqrt(*settings.scale_width);
    if (!settings.is_scaled)
        scale = 1;
    if (settings.is_scaled_by_layer)
        scale = scale.value_or(1 / std::sqrt(static_cast<double>(head_width))) / static_cast<double>(layer + 1);
    return scale;
}

ExpertsOptions experts_of(const Settings& settings)
{
    ExpertsOptions experts = settings.experts;
    experts.expert.activation = settings.activation;
    if (!settings.normalizes_experts)
        experts.normalization = ExpertNormalization::none;
    if (settings.expert_count.value_or(0) > 0 && (experts.top == 0 || experts.top > *settings.expert_count))
        throw Error("each token has " + text(experts.top) + " experts, and there are " + text(*settings.expert_count));
    return experts;
}

/// How many features of a head are rotated, all unless its keys are made of a latent.
std::size_t rotary_width(const Settings& settings, std::size_t head_width)
{
    const auto& [rotary, query] = std::tie(settings.rotary_width, settings.query_width);
    if (!settings.latent_width)
        return head_width;
    if (settings.head_width.value_or(rotary) != rotary)
        throw Error("head_dim is " + text(*settings.head_width) + ", expected qk_rope_head_dim, " + text(rotary));
    if (query && *query != settings.plain_width + rotary)
        throw Error("qk_head_dim is " + text(*query) + ", expected qk_nope_head_dim + qk_rope_head_dim, " +
                    text(settings.plain_width + rotary));
    if (settings.key_value_heads.value_or(settings.heads) != settings.heads)
        throw Error("num_key_value_heads is " + text(*settings.key_value_heads) + ", expected num_attention_heads, " +
                    text(settings.heads) + ": in latent attention every head has keys and values of its own");
    return rotary;
}

GatedDeltaNetOptions delta_net_of(const Settings& settings)
{
    GatedDeltaNetOptions options{.norm = {.epsilon = settings.norm.epsilon}};
    if (settings.states)
        options.key_heads = settings.states->key_heads;
    return options;
}

/// What is divided evenly among what.
void expect_divisible(const Settings& settings, std::size_t d_model)
{
    struct Row {
        std::size_t whole, parts;
        std::string_view of, among;
    };
    const auto& [heads, states, groups] = std::tie(settings.heads, settings.states, settings.experts.groups);
    const ImageSize one{1, 1}, image = settings.image.value_or(one), patch = settings.image ? settings.patch : one;
    const bool has_own_width = settings.head_width || settings.latent_width;
    const std::size_t linear_heads = states ? states->heads : 1, experts = settings.expert_count.value_or(0);
    const Row rows[] = {{d_model, has_own_width ? 1 : heads, "features", "heads"},
                        {heads, settings.key_value_heads.value_or(1), "heads", "key/value heads"},
                        {linear_heads, states ? states->key_heads : 1, "heads of values", "heads of keys"},
                        {experts, groups ? groups->count : 1, "experts", "groups"},
                        {image.height, patch.height, "rows of pixels", "rows of a patch"},
                        {image.width, patch.width, "columns of pixels", "columns of a patch"}};
    for (const auto& [whole, parts, of, among] : rows)
        if (whole % parts != 0)
            throw Error(text(whole) + " " + std::string(of) + " can't be divided evenly among " + text(parts) + " " +
                        std::string(among));
}

} // namespace

bool is_linear(const Settings& settings, std::size_t layer)
{
    if (!settings.states)
        return false;
    if (settings.layer_types)
        return (*settings.layer_types)[layer] == "linear_attention";
    return settings.attention_interval && (layer + 1) % *settings.attention_interval != 0;
}

bool has_experts(const Settings& settings, std::size_t layer)
{
    if (settings.expert_count.value_or(0) == 0 || layer < settings.first_sparse_layer)
        return false;
    if (const auto& sparse = settings.sparse_layers)
        return std::ranges::find(*sparse, layer) != sparse->end();
    const auto& dense = settings.dense_layers;
    const bool is_dense = dense && std::ranges::find(*dense, layer) != dense->end();
    return !is_dense && (layer + 1) % settings.sparse_step.value_or(1) == 0;
}

LanguageModelDescription description_of(const Settings& settings, std::size_t d_model, std::size_t layers)
{
    expect_divisible(settings, d_model);
    const std::size_t head_width = settings.head_width.value_or(d_model / settings.heads);
    LanguageModelDescription model{
        .norm = settings.norm,
        .image = settings.has_any_image_size ? std::nullopt : settings.image,
        .convolution_activation = settings.convolution_activation,
        .is_causal = settings.is_causal,
        .has_logits = settings.has_logits,
        .first_position = settings.first_position,
        .padding_id = settings.padding_id,
        .token_dropout = settings.token_dropout,
        .embedding_scale = settings.embedding_scale,
        .head_activation = settings.prediction_head.value_or(default_activation),
        .logit_scale = settings.logit_scale,
        .logit_softcap = settings.logit_softcap,
        .distance_buckets = {.farthest = settings.farthest_bucket, .is_bidirectional = !settings.is_causal}};
    if (settings.layers_too.value_or(layers) != layers)
        throw Error("num_hidden_layers is " + text(*settings.layers_too) + ", expected " + text(layers) +
                    ", as the family's own name says");
    if (settings.pooled_token && !settings.has_logits)
        model.pooler = {.token = *settings.pooled_token,
                        .id = settings.pooled_id,
                        .heads = settings.heads,
                        .norm = settings.norm,
                        .activation = settings.activation,
                        .has_tanh = settings.has_pooler_tanh};
    for (const std::size_t stride : settings.convolution_strides)
        model.convolutions.push_back({.stride = stride});
    if (settings.scales_embedding_by_width)
        model.embedding_scale = std::sqrt(static_cast<double>(d_model));
    if (settings.scales_logits_by_width && settings.has_logits)
        model.logit_scale = 1 / std::sqrt(static_cast<double>(d_model));
    if (settings.logit_divisor)
        model.logit_scale = 1 / *settings.logit_divisor;

    for (std::size_t i = 0; i < layers; ++i) {
        BlockDescription layer{.norm = settings.norm,
                               .places = settings.places,
                               .has_first_norm = i > 0 || settings.has_first_norm,
                               .is_parallel = settings.is_parallel,
                               .residual_scale = settings.residual_scale,
                               .delta_net = delta_net_of(settings),
                               .activation = settings.activation,
                               .experts = experts_of(settings),
                               .adds_to_norms = settings.adds_to_norms};
        bool rotary = is_rotary(settings, i, layers);
        layer.window = window_of(settings, i, layers, rotary);
        layer.chunk = chunk_of(settings, i, rotary);
        if (settings.has_rotary_in_windows_only && settings.window)
            rotary = layer.window.has_value();
        layer.attention = {.heads = settings.heads,
                           .scale = scale_of(settings, i, head_width),
                           .softcap = settings.softcap,
                           .positions = rotary                                       ? HeadPositions::rotary
                                        : settings.positions == HeadPositions::alibi ? HeadPositions::alibi
                                                                                     : HeadPositions::none,
                           .norm_kind = settings.norm.kind,
                           .norm = {.epsilon = settings.head_norm_epsilon.value_or(settings.norm.epsilon),
                                    .adds_one = settings.norm.adds_one}};
        if (rotary)
            layer.attention.rotary = rotary_of(settings, layer.window.has_value(), rotary_width(settings, head_width));
        if (settings.has_unit_heads && rotary)
            layer.attention.unit_epsilon = settings.norm.epsilon;
        if (settings.has_temperature && !rotary)
            layer.attention.temperature = settings.temperature;
        if (settings.is_scaled_by_mscale)
            layer.attention.scale =
                latent_attention_scale(layer.attention.rotary.scaling, settings.plain_width + settings.rotary_width);
        model.layers.push_back(std::move(layer));
    }
    return model;
}

} // namespace attn::files
