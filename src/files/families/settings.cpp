// What a field of a configuration can set: one row each.

#include "settings.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/error.hpp"
#include "attn/reference/layers/activation.hpp"

#include <cmath>
#include <functional>
#include <stdexcept>

namespace attn::files {
namespace {

constexpr Choice<HeadNorms> head_norms[] = {
    {HeadNorms::none, "none"}, {HeadNorms::head, "head"}, {HeadNorms::each, "each"}, {HeadNorms::width, "width"}};

constexpr Choice<SinusoidsOfTable> sinusoids_of_table[] = {{SinusoidsOfTable::beyond_last, "beyond-last"},
                                                           {SinusoidsOfTable::at_last, "at-last"}};

// ---------------------------------------------------------------------------------------------------- kinds of values

[[noreturn]] void refuse(const Json& value, const std::string& expected)
{
    throw Error("is " + value.dump() + ", expected " + expected);
}

void read(const Json& value, bool& target)
{
    value.is_boolean() ? void(target = value.get<bool>()) : refuse(value, "true or false");
}

void read(const Json& value, double& target)
{
    if (!value.is_number() || !std::isfinite(value.get<double>()))
        refuse(value, "a number");
    target = value.get<double>();
}

/// How many there are of what a model can't be without; from_0() has the others.
void read(const Json& value, std::size_t& target, double least = 1)
{
    constexpr double most = 1e9;
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most) ||
        value.get<double>() != std::trunc(value.get<double>()))
        refuse(value, least == 0 ? "a whole number" : "a whole number from 1");
    target = static_cast<std::size_t>(value.get<double>());
}

void read(const Json& value, std::string& target)
{
    value.is_string() ? void(target = value.get<std::string>()) : refuse(value, "a text");
}

void read(const Json& value, Json& target)
{
    if (!value.is_null() && !value.is_object())
        refuse(value, "an object");
    target = value;
}

template <class Entry, class... Least>
void read(const Json& value, std::vector<Entry>& target, Least... least)
{
    if (!value.is_array())
        refuse(value, "a list");
    target.clear();
    for (const Json& entry : value)
        read(entry, target.emplace_back(), least...);
}

template <class Enum>
requires std::is_enum_v<Enum>
void read(const Json& value, Enum& target)
{
    std::string known;
    for (const Enum choice : enumerators<Enum>) {
        if (value == name_of(choice))
            return void(target = choice);
        known += (known.empty() ? "" : ", ") + std::string(name_of(choice));
    }
    refuse(value, "one of " + known);
}

/// A number of pixels in both directions, or [height, width].
void read(const Json& value, ImageSize& target)
{
    if (value.is_array() && value.size() == 2) {
        read(value[0], target.height);
        read(value[1], target.width);
    } else {
        read(value, target.height);
        target.width = target.height;
    }
}

/// The names that transformers has for activations, where they are not ours.
void read(const Json& value, Activation& target)
{
    struct Row {
        std::string_view theirs, ours;
    };
    constexpr Row rows[] = {{"gelu_new", "gelu-tanh"},      {"gelu_pytorch_tanh", "gelu-tanh"},
                            {"gelu_accurate", "gelu-tanh"}, {"gelu_python_tanh", "gelu-tanh"},
                            {"gelu_python", "gelu"},        {"swish", "silu"},
                            {"quick_gelu", "quick-gelu"}};
    for (const auto& [theirs, ours] : rows)
        if (value == theirs)
            return read<Activation>(Json(ours), target);
    read<Activation>(value, target);
}

template <class Value, class... Least>
void read(const Json& value, std::optional<Value>& target, Least... least)
{
    target.reset();
    if (!value.is_null())
        read(value, target.emplace(), least...);
}

// --------------------------------------------------------------------------------------------------------- the settings

struct Setting {
    std::string_view name;
    std::function<void(Settings&, const Json&)> set;
};

template <class Member>
Setting row(std::string_view name, Member member)
{
    return {name, [member](Settings& settings, const Json& value) { read(value, std::invoke(member, settings)); }};
}

/// A whole number, or a list of them: of layers, or of what there can be none of.
template <class Member>
Setting from_0(std::string_view name, Member member)
{
    return {name, [member](Settings& settings, const Json& value) { read(value, std::invoke(member, settings), 0.0); }};
}

void set_embedding_scale(Settings& settings, const Json& value)
{
    settings.scales_embedding_by_width = value == "sqrt(d_model)";
    if (!settings.scales_embedding_by_width)
        read(value, settings.embedding_scale);
    if (settings.embedding_scale == 1)
        settings.embedding_scale.reset();
}

void set_attention_bias(Settings& settings, const Json& value)
{
    read(value, settings.projection_bias);
    settings.output_bias = settings.projection_bias;
}

void set_all_biases(Settings& settings, const Json& value)
{
    set_attention_bias(settings, value);
    read(value, settings.network_bias);
}

void set_activation_and_head(Settings& settings, const Json& value)
{
    read(value, settings.activation);
    settings.prediction_head = settings.activation;
}

/// "relu", or "gated-silu"; the GELU of T5's gated network is the tanh approximation.
void set_activation_and_gate(Settings& settings, const Json& value)
{
    const std::string gated = "gated-";
    std::string name;
    read(value, name);
    settings.is_gated = name.starts_with(gated);
    if (*settings.is_gated)
        name = name == "gated-gelu" ? "gelu_new" : name.substr(gated.size());
    read(Json(name), settings.activation);
}

void set_rotary_interleave(Settings& settings, const Json& value)
{
    bool is_interleaved = false;
    read(value, is_interleaved);
    settings.rotary_layout = is_interleaved ? RotaryLayout::pairs : RotaryLayout::halves;
}

Settings::States& states_of(Settings& settings)
{
    return settings.states ? *settings.states : settings.states.emplace();
}

/// The keys to both sides of a query, and the one at its own place.
void set_window_both_sides(Settings& settings, const Json& value)
{
    read(value, settings.window, 0.0);
    if (settings.window)
        *settings.window = *settings.window / 2 + 1;
}

/// [[["global", "local"], 12]]: these two kinds in turn, twelve times.
void set_attention_types(Settings& settings, const Json& value)
{
    const std::string expected = "a list such as [[[\"global\", \"local\"], 12]]";
    if (!value.is_array())
        refuse(value, expected);
    auto& types = settings.layer_types.emplace();
    for (const Json& entry : value) {
        std::vector<std::string> kinds;
        std::size_t times = 0;
        if (!entry.is_array() || entry.size() != 2)
            refuse(value, expected);
        read(entry[0], kinds);
        read(entry[1], times);
        if (times > 10000)
            refuse(value, "fewer layers");
        for (std::size_t i = 0; i < times; ++i)
            for (const std::string& kind : kinds) {
                if (kind != "global" && kind != "local")
                    refuse(value, "global and local");
                types.push_back(kind == "local" ? "sliding_attention" : "full_attention");
            }
    }
}

/// The id of the end of a text. Configurations of CLIP's first years have 2 here by mistake: transformers takes the highest id then.
void set_end_of_text(Settings& settings, const Json& value)
{
    read(value, settings.pooled_id, 0.0);
    settings.pooled_token = settings.pooled_id == 2 ? PooledToken::highest_id : PooledToken::of_id;
}

ExpertGroups& groups_of(Settings& settings)
{
    auto& groups = settings.experts.groups;
    return groups ? *groups : groups.emplace();
}

const std::vector<Setting>& all_settings()
{
    static const std::vector<Setting> all{
        row("architectures", &Settings::architectures),
        row("heads", &Settings::heads),
        row("vocabulary", &Settings::vocabulary),
        row("d_model", &Settings::d_model),
        row("d_ff", &Settings::d_ff),
        row("layers", &Settings::layers),
        row("key_value_heads", &Settings::key_value_heads),
        row("head_width", &Settings::head_width),
        row("query_width", &Settings::query_width),
        row("latent_width", &Settings::latent_width),
        row("query_latent_width", &Settings::query_latent_width),
        row("plain_width", &Settings::plain_width),
        row("rotary_width", &Settings::rotary_width),
        row("value_width", &Settings::value_width),
        row("head_norm_epsilon", &Settings::head_norm_epsilon),
        row("position_rows", &Settings::position_rows),
        row("embedding_width", &Settings::embedding_width),
        row("has_embedding_map", &Settings::has_embedding_map),
        row("maps_words", &Settings::maps_words),
        row("has_output_map", &Settings::has_output_map),
        row("has_position_table", &Settings::has_position_table),
        row("tied", &Settings::is_tied),
        row("maps_are_in_out", &Settings::maps_are_in_out),
        {"attention_bias", set_attention_bias},
        {"all_biases", set_all_biases},
        row("projection_bias", &Settings::projection_bias),
        row("output_bias", &Settings::output_bias),
        row("network_bias", &Settings::network_bias),
        row("norm_bias", &Settings::norm_bias),
        row("has_norm_gains", &Settings::has_norm_gains),
        row("is_causal", &Settings::is_causal),
        row("has_logits", &Settings::has_logits),
        row("image", [](Settings& s) -> ImageSize& { return s.image ? *s.image : s.image.emplace(); }),
        row("patch", &Settings::patch),
        row("has_patch_map", &Settings::has_patch_map),
        row("has_any_image_size", &Settings::has_any_image_size),
        from_0("registers", &Settings::registers),
        row("has_patch_bias", &Settings::has_patch_bias),
        row("has_class_token", &Settings::has_class_token),
        row("has_distillation_token", &Settings::has_distillation_token),
        row("channels", &Settings::channels),
        row("convolution_strides", &Settings::convolution_strides),
        row("convolution_activation", &Settings::convolution_activation),
        row("layers_too", &Settings::layers_too),
        row("own_layers", &Settings::own_layers),
        row("buckets", &Settings::buckets),
        row("has_buckets_in_layers", &Settings::has_buckets_in_layers),
        row("farthest_bucket", &Settings::farthest_bucket),
        row("has_memory", &Settings::has_memory),
        row("query_bias", &Settings::query_bias),
        row("key_bias", &Settings::key_bias),
        row("value_bias", &Settings::value_bias),
        row("prediction_head", &Settings::prediction_head),
        row("has_prediction_head_bias", &Settings::has_prediction_head_bias),
        row("has_vocabulary_bias", &Settings::has_vocabulary_bias),
        row("has_embedding_norm", &Settings::has_embedding_norm),
        row("has_final_norm", &Settings::has_final_norm),
        row("has_first_norm", &Settings::has_first_norm),
        row("token_types", &Settings::token_types),
        from_0("padding_id",
               [](Settings& s) -> std::size_t& { return s.padding_id ? *s.padding_id : s.padding_id.emplace(); }),
        from_0("dropped_token",
               [](Settings& s) -> std::size_t& {
                   return s.token_dropout ? s.token_dropout->id : s.token_dropout.emplace().id;
               }),
        row("has_sinks", &Settings::has_sinks),
        row("has_gate", &Settings::has_gate),
        row("has_layer_scale", &Settings::has_layer_scale),
        row("linear_heads", [](Settings& s) -> std::size_t& { return states_of(s).heads; }),
        row("linear_key_heads", [](Settings& s) -> std::size_t& { return states_of(s).key_heads; }),
        row("linear_key_width", [](Settings& s) -> std::size_t& { return states_of(s).d_k; }),
        row("linear_value_width", [](Settings& s) -> std::size_t& { return states_of(s).d_v; }),
        row("linear_window", [](Settings& s) -> std::size_t& { return states_of(s).width; }),
        row("attention_interval", &Settings::attention_interval),
        row("head_norms", &Settings::head_norms),
        row("head_norm_bias", &Settings::head_norm_bias),
        row("norm", [](Settings& s) -> NormKind& { return s.norm.kind; }),
        row("epsilon", [](Settings& s) -> double& { return s.norm.epsilon; }),
        row("adds_one", [](Settings& s) -> bool& { return s.norm.adds_one; }),
        row("places", &Settings::places),
        row("is_parallel", &Settings::is_parallel),
        row("adds_to_norms", &Settings::adds_to_norms),
        row("residual_scale", &Settings::residual_scale),
        row("activation", &Settings::activation),
        {"activation_and_head", set_activation_and_head},
        {"activation_and_gate", set_activation_and_gate},
        row("own_activation", &Settings::own_activation),
        row("own_gate", &Settings::own_gate),
        from_0("expert_count", &Settings::expert_count),
        row("sparse_step", &Settings::sparse_step),
        from_0("dense_layers", &Settings::dense_layers),
        from_0("sparse_layers", &Settings::sparse_layers),
        from_0("first_sparse_layer", &Settings::first_sparse_layer),
        from_0("shared_experts", &Settings::shared_experts),
        row("corrects_experts", &Settings::corrects_experts),
        row("gates_shared_expert", &Settings::gates_shared_expert),
        row("router_bias", &Settings::router_bias),
        row("normalizes_experts", &Settings::normalizes_experts),
        from_0("experts_per_token", [](Settings& s) -> std::size_t& { return s.experts.top; }),
        row("expert_scoring", [](Settings& s) -> ExpertScoring& { return s.experts.scoring; }),
        row("expert_normalization", [](Settings& s) -> ExpertNormalization& { return s.experts.normalization; }),
        row("expert_weighting", [](Settings& s) -> ExpertWeighting& { return s.experts.weighting; }),
        row("expert_scaling", [](Settings& s) -> double& { return s.experts.scaling_factor; }),
        row("expert_groups", [](Settings& s) -> std::size_t& { return groups_of(s).count; }),
        row("kept_expert_groups", [](Settings& s) -> std::size_t& { return groups_of(s).kept; }),
        row("expert_group_best", [](Settings& s) -> std::size_t& { return groups_of(s).best; }),
        row("expert_limit", [](Settings& s) -> std::optional<double>& { return s.experts.expert.limit; }),
        row("expert_up_shift", [](Settings& s) -> double& { return s.experts.expert.up_shift; }),
        row("scale", &Settings::scale),
        row("scale_width", &Settings::scale_width),
        row("softcap", &Settings::softcap),
        row("is_scaled", &Settings::is_scaled),
        row("is_scaled_by_layer", &Settings::is_scaled_by_layer),
        row("is_scaled_by_mscale", &Settings::is_scaled_by_mscale),
        row("has_unit_heads", &Settings::has_unit_heads),
        row("has_temperature", &Settings::has_temperature),
        row("temperature_strength", [](Settings& s) -> double& { return s.temperature.strength; }),
        row("temperature_every", [](Settings& s) -> std::size_t& { return s.temperature.every; }),
        row("chunk", &Settings::chunk),
        from_0("window", &Settings::window),
        row("uses_window", &Settings::uses_window),
        row("uses_window_without_rotary", &Settings::uses_window_without_rotary),
        from_0("first_windowed_layer", &Settings::first_windowed_layer),
        {"window_both_sides", set_window_both_sides},
        row("full_interval", &Settings::full_interval),
        row("window_pattern", &Settings::window_pattern),
        row("layer_types", &Settings::layer_types),
        {"attention_types", set_attention_types},
        row("layer_types_cycle", &Settings::layer_types_cycle),
        row("positions", &Settings::positions),
        from_0("first_position", &Settings::first_position),
        row("rotary_layout", &Settings::rotary_layout),
        {"rotary_interleave", set_rotary_interleave},
        row("rotary_parameters", &Settings::rotary_parameters),
        row("rotary_scaling", &Settings::rotary_scaling),
        row("rotary_aliases", &Settings::rotary_aliases),
        row("rotary_without_effect", &Settings::rotary_without_effect),
        row("rotary_base", &Settings::rotary_base),
        row("rotary_base_of_family", &Settings::rotary_base_of_family),
        row("rotary_base_of_window", &Settings::rotary_base_of_window),
        row("rotary_share", &Settings::rotary_share),
        row("rotary_features",
            [](Settings& s) -> std::size_t& {
                return s.rotary_features ? *s.rotary_features : s.rotary_features.emplace();
            }),
        row("has_rotary_share", &Settings::has_rotary_share),
        row("positions_in_training", &Settings::positions_in_training),
        row("original_positions", &Settings::original_positions),
        from_0("rotary_layers", &Settings::rotary_layers),
        row("has_rotary_by_layer_type", &Settings::has_rotary_by_layer_type),
        row("rotates_along_image", &Settings::rotates_along_image),
        from_0("rotary_sections", &Settings::rotary_sections),
        row("interleaves_sections", &Settings::interleaves_sections),
        row("has_rotary_in_windows_only", &Settings::has_rotary_in_windows_only),
        row("rotary_interval", &Settings::rotary_interval),
        row("pooled_token", &Settings::pooled_token),
        {"end_of_text", set_end_of_text},
        row("pooled_width", &Settings::pooled_width),
        row("has_pooler_norm", &Settings::has_pooler_norm),
        row("has_pooler_network", &Settings::has_pooler_network),
        row("has_pooler_map", &Settings::has_pooler_map),
        row("has_pooler_bias", &Settings::has_pooler_bias),
        row("has_pooler_tanh", &Settings::has_pooler_tanh),
        {"embedding_scale", set_embedding_scale},
        row("scales_embedding_by_width", &Settings::scales_embedding_by_width),
        row("scales_logits_by_width", &Settings::scales_logits_by_width),
        row("position_sinusoids", &Settings::position_sinusoids),
        row("logit_scale", &Settings::logit_scale),
        row("logit_divisor", &Settings::logit_divisor),
        row("logit_softcap", &Settings::logit_softcap)};
    return all;
}

} // namespace

std::string_view name_of(HeadNorms norms) { return row_for<head_norms>(norms).name; }
std::string_view name_of(SinusoidsOfTable sinusoids) { return row_for<sinusoids_of_table>(sinusoids).name; }

void set(Settings& settings, const std::string& name, const Json& value)
{
    for (const Setting& setting : all_settings())
        if (setting.name == name)
            return setting.set(settings, value);
    throw std::logic_error("a family's file sets " + name + ", which is no setting");
}

} // namespace attn::files
