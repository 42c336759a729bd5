// From the settings of a configuration to the rotation of queries and keys.

#include "settings.hpp"

#include "attn/core/error.hpp"
#include "attn/files/families/rotary_config.hpp"

#include <algorithm>

namespace attn::files {
namespace {

/// Parameters, and where they stand in the configuration.
struct Parameters {
    std::string name;
    Json values;
};

/// The parameters of a layer. Where some layers have a window, those with and without one can have their own.
Parameters parameters_of(const Settings& settings, bool is_windowed)
{
    const bool is_old = settings.rotary_scaling.is_object() && !settings.rotary_scaling.empty();
    const bool is_new = settings.rotary_parameters.is_object() && !settings.rotary_parameters.empty();
    if (is_old && is_new && settings.has_rotary_by_layer_type)
        throw Error("has rope_scaling and rope_parameters, expected one of them: transformers puts the fields of the "
                    "first into the second's full_attention");
    if (is_old && settings.rotary_base_of_window && is_windowed) // it is about layers without a window
        return {"rope_scaling", Json::object()};
    if (is_old)
        return {"rope_scaling", settings.rotary_scaling};
    if (!settings.rotary_parameters.is_object())
        return {"rope_parameters", Json::object()};
    if (!settings.has_rotary_by_layer_type || settings.rotary_parameters.empty())
        return {"rope_parameters", settings.rotary_parameters};
    for (const auto& [field, own] : settings.rotary_parameters.items())
        if (field != "sliding_attention" && field != "full_attention")
            throw Error("rope_parameters has " + field +
                        ", expected full_attention and sliding_attention, each with its own");
    const std::string type = is_windowed ? "sliding_attention" : "full_attention";
    const Json own = settings.rotary_parameters.value(type, Json());
    if (own.is_object() && own.contains("truncate") && own["truncate"] != true)
        throw Error("rope_parameters." + type + ".truncate is " + own["truncate"].dump() +
                    ", expected true: transformers computes so, whatever stands here");
    return {"rope_parameters." + type, own.is_null() ? Json::object() : own};
}

double base_of(const Settings& settings, bool is_windowed)
{
    if (is_windowed && settings.rotary_base_of_window)
        return *settings.rotary_base_of_window;
    return settings.rotary_base.value_or(settings.rotary_base_of_family);
}

bool is_scaled(const Json& parameters)
{
    const auto type = parameters.find(parameters.contains("rope_type") ? "rope_type" : "type");
    return type != parameters.end() && *type != "default";
}

/// Most families rotate whole heads, whatever partial_rotary_factor says, and fail where it would matter.
void expect_whole_heads(Json& parameters, const Settings& settings, bool has_scaling)
{
    const auto share = parameters.find("partial_rotary_factor");
    const bool is_part = (share != parameters.end() && *share != 1) || settings.rotary_share.value_or(1) != 1;
    if (has_scaling && is_part)
        throw Error(
            "partial_rotary_factor and a scaling of positions contradict each other in this family, whose heads are "
            "rotated whole");
    parameters.erase("partial_rotary_factor");
}

/// Which axis each pair follows, along the rows and the columns of an image.
RotaryAxes axes_of_image(std::size_t pairs)
{
    if (pairs % 2 != 0)
        throw Error("a head has " + std::to_string(pairs) +
                    " pairs of features, expected as many for the rows of an image as for its columns");
    RotaryAxes axes{.of_pairs = Integers(Integers::shape_type{pairs}, 1), .has_own_frequencies = true};
    std::fill_n(axes.of_pairs.begin(), pairs / 2, 0);
    return axes;
}

/// The same of time, height and width: sections side by side, or one pair of each in turn.
RotaryAxes axes_of_sections(const Settings& settings, const Json& parameters, const std::string& name,
                            std::size_t pairs)
{
    std::vector<std::size_t> sections = *settings.rotary_sections;
    const auto refuse = [&](const std::string& expected) {
        throw Error(name + ".mrope_section is " + parameters.value("mrope_section", Json(sections)).dump() +
                    ", expected " + expected);
    };
    if (const auto given = parameters.find("mrope_section"); given != parameters.end()) {
        const auto is_count = [](const Json& one) { return one.is_number_unsigned() && one <= 1'000'000; };
        if (!given->is_array() || given->size() != 3 || !std::ranges::all_of(*given, is_count))
            refuse("three whole numbers");
        sections = given->get<std::vector<std::size_t>>();
    }
    RotaryAxes axes{.of_pairs = Integers(Integers::shape_type{pairs}, 0)};
    std::size_t next = 0;
    for (std::size_t axis = 0; axis < sections.size(); ++axis)
        for (std::size_t i = 0; i < sections[axis]; ++i) {
            const std::size_t pair = settings.interleaves_sections ? 3 * i + axis : next++;
            if (pair < pairs)
                axes.of_pairs(pair) = static_cast<std::int64_t>(axis);
        }
    if (!settings.interleaves_sections && next != pairs)
        refuse("a sum of " + std::to_string(pairs) + ", the pairs of a head");
    return axes;
}

} // namespace

RotaryOptions rotary_of(const Settings& settings, bool is_windowed, std::size_t head_width)
{
    auto [name, parameters] = parameters_of(settings, is_windowed);
    if (!parameters.is_object())
        throw Error(name + " is " + parameters.dump() + ", expected an object");
    for (const char* field : {"type", "rope_type"})
        if (const auto type = parameters.find(field); type != parameters.end() && type->is_string())
            *type = settings.rotary_aliases.value(type->get<std::string>(), type->get<std::string>());

    for (const std::string& field : settings.rotary_without_effect)
        parameters.erase(field);
    const Json sections = parameters;
    if (settings.rotary_sections)
        parameters.erase("mrope_section");

    Json around{{"rope_theta", base_of(settings, is_windowed)}};
    if (settings.positions_in_training)
        around["max_position_embeddings"] = *settings.positions_in_training;
    if (settings.original_positions)
        around["original_max_position_embeddings"] = *settings.original_positions;
    if (!settings.has_rotary_share)
        expect_whole_heads(parameters, settings, is_scaled(parameters));
    else if (settings.rotary_features)
        around["partial_rotary_factor"] =
            static_cast<double>(*settings.rotary_features) / static_cast<double>(head_width);
    else if (settings.rotary_share)
        around["partial_rotary_factor"] = *settings.rotary_share;

    RotaryOptions options = rotary_options(parameters, around, head_width, name);
    options.layout = settings.rotary_layout;
    const std::size_t pairs = options.features.value_or(head_width) / 2;
    if (settings.rotates_along_image)
        options.axes = axes_of_image(pairs);
    if (settings.rotary_sections)
        options.axes = axes_of_sections(settings, sections, name, pairs);
    return options;
}

} // namespace attn::files
