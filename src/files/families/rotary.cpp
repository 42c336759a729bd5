// From the settings of a configuration to the rotation of queries and keys.

#include "settings.hpp"

#include "attn/core/error.hpp"

namespace attn::files {
namespace {

/// The parameters of a layer. Where some layers have a window, those with and without one can have their own.
Json parameters_of(const Settings& settings, bool is_windowed)
{
    const bool is_old = settings.rotary_scaling.is_object() && !settings.rotary_scaling.empty();
    if (is_old) // it is about layers without a window where those with one have their own base
        return settings.rotary_base_of_window && is_windowed ? Json::object() : settings.rotary_scaling;
    if (!settings.rotary_parameters.is_object())
        return Json::object();
    const auto own = settings.rotary_parameters.find(is_windowed ? "sliding_attention" : "full_attention");
    if (own == settings.rotary_parameters.end())
        return settings.rotary_parameters;
    return own->is_object() ? *own : Json::object();
}

double base_of(const Settings& settings, const Json& parameters, bool is_windowed)
{
    if (const auto own = parameters.find("rope_theta"); own != parameters.end())
        return own->is_number() ? own->get<double>() : throw Error("rope_theta is " + own->dump() + ", expected a number");
    if (is_windowed && settings.rotary_base_of_window)
        return *settings.rotary_base_of_window;
    return settings.rotary_base.value_or(settings.rotary_base_of_family);
}

} // namespace

RotaryOptions rotary_of(const Settings& settings, bool is_windowed, std::size_t)
{
    const Json parameters = parameters_of(settings, is_windowed);
    RotaryOptions options{.base = base_of(settings, parameters, is_windowed), .layout = settings.rotary_layout};
    const std::string type = parameters.value("rope_type", parameters.value("type", "default"));
    if (type != "default")
        throw Error("rope_parameters.rope_type is \"" + type + "\", which is not known here; known is default");
    return options;
}

} // namespace attn::files
