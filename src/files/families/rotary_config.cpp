#include "attn/files/families/rotary_config.hpp"

#include "attn/core/error.hpp"
#include "attn/core/utf8.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace attn::files {
namespace {

using Json = nlohmann::json;

/// A list of words: "default, linear, dynamic".
std::string joined(const std::vector<std::string>& words)
{
    std::string text;
    for (const std::string& word : words)
        text += (text.empty() ? "" : ", ") + word;
    return text;
}

/// A value in our words, cut short.
std::string shown(const Json& value)
{
    constexpr std::size_t longest = 60;
    return printable(value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', false, Json::error_handler_t::replace),
                     longest);
}

const Json* find(const Json& object, std::string_view name)
{
    const auto found = object.find(std::string(name));
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

/// The parameters, and the config around them.
class Reader {
public:
    Reader(const Json& parameters, const Json& config, std::string_view name)
        : parameters_(parameters), config_(config), name_(name)
    {
        if (!parameters.is_object())
            throw Error(std::string(name.empty() ? "it" : name) + " is " + shown(parameters) +
                        ", expected an object such as {\"rope_type\": \"linear\", \"factor\": 8}");
    }

    /// "rope_parameters.factor"
    std::string named(std::string_view field) const
    {
        return name_.empty() ? std::string(field) : std::string(name_) + "." + std::string(field);
    }

    /// Where the value of a field is: in the parameters, else in the config, but what was there in training the other way
    /// round.
    const Json* find_anywhere(std::string_view field) const
    {
        const Json *own = find(parameters_, field), *around = find(config_, field);
        const bool is_of_model = field.ends_with("max_position_embeddings");
        return is_of_model ? (around ? around : own) : (own ? own : around);
    }

    /// A field of a scaling.
    const Json* find_field(std::string_view field) const
    {
        if (!field.ends_with("max_position_embeddings"))
            return find(parameters_, field);
        const Json* const found = find_anywhere(field);
        return found ? found : find(config_, "max_position_embeddings");
    }

    Error wrong(std::string_view field, const Json& value, const std::string& wanted) const
    {
        return Error(named(field) + " is " + shown(value) + ", expected " + wanted);
    }

    void read(std::string_view field, const Json& value, double& number) const
    {
        if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0)
            throw wrong(field, value, "a number above zero");
        number = value.get<double>();
    }

    void read(std::string_view field, const Json& value, std::optional<double>& number) const
    {
        if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0)
            throw wrong(field, value, "a number from zero");
        number = value.get<double>();
    }

    void read(std::string_view field, const Json& value, std::size_t& number) const
    {
        constexpr double most = 1e12;
        double given = 0;
        read(field, value, given);
        if (given != std::trunc(given) || given > most)
            throw wrong(field, value, "a whole number");
        number = static_cast<std::size_t>(given);
    }

    void read(std::string_view field, const Json& value, bool& truth) const
    {
        if (!value.is_boolean())
            throw wrong(field, value, "true or false");
        truth = value.get<bool>();
    }

    void read(std::string_view field, const Json& value, Vector& numbers) const
    {
        if (!value.is_array())
            throw wrong(field, value, "a list of numbers");
        numbers = Vector(Vector::shape_type{value.size()});
        for (std::size_t i = 0; i < value.size(); ++i)
            read(std::string(field) + "[" + std::to_string(i) + "]", value[i], numbers(i));
    }

    /// How many times longer texts are than in training, by the lengths, where the config does not say it.
    std::optional<double> factor_by_lengths() const
    {
        const Json* const longest = find(config_, "max_position_embeddings");
        const Json* const original = find_field("original_max_position_embeddings");
        if (!longest || !original)
            return std::nullopt;
        double above = 0, below = 0;
        read("max_position_embeddings", *longest, above);
        read("original_max_position_embeddings", *original, below);
        return above / below;
    }

    bool has(std::string_view field) const { return parameters_.contains(std::string(field)); }
    const Json& parameters() const { return parameters_; }

private:
    const Json& parameters_;
    const Json& config_;
    std::string_view name_;
};

/// The scaling that a rope_type means, with presets.
RotaryScaling named_scaling(const Reader& from)
{
    const Json* type = find(from.parameters(), "rope_type");
    const char* const field = type ? "rope_type" : "type";
    type = type ? type : find(from.parameters(), "type");
    if (type == nullptr)
        return std::monostate{};
    std::vector<std::string> known;
    for (const RotaryScaling& scaling : rotary_scalings()) {
        if (type->is_string() && type->get<std::string>() == name_of(scaling))
            return scaling;
        known.emplace_back(name_of(scaling));
    }
    throw Error(from.named(field) + " " + shown(*type) + " is not known; known are " + joined(known));
}

/// Whether the lengths say a factor that is missing: LongRoPE's always, YaRN's where it is null.
bool follows_from_lengths(const RotaryScaling& scaling, std::string_view field, const Reader& from)
{
    return field == "factor" && (std::holds_alternative<LongRopeScaling>(scaling) ||
                                 (std::holds_alternative<YarnScaling>(scaling) && from.has(field)));
}

/// @param others  fields of the parameters that are no members of a scaling, and are read elsewhere
void expect_known(const Reader& from, const RotaryScaling& scaling, const std::vector<std::string>& others)
{
    std::vector<std::string> known{"rope_type", "type"};
    known.insert(known.end(), others.begin(), others.end());
    const auto add = [&](std::string_view field, const auto&, Presence) { known.emplace_back(field); };
    std::visit([&](const auto& of) { visit_members(of, add); }, scaling);
    for (const auto& [field, value] : from.parameters().items())
        if (std::ranges::find(known, field) == known.end())
            throw Error(printable(from.named(field)) + " is not known for the rope_type " +
                        std::string(name_of(scaling)) + "; known are " + joined(known));
}

RotaryScaling read_scaling(const Reader& from, const std::vector<std::string>& others)
{
    RotaryScaling scaling = named_scaling(from);
    expect_known(from, scaling, others);
    const auto read = [&](std::string_view field, auto& member, Presence presence) {
        if constexpr (std::is_same_v<decltype(member), bool&>)
            if (from.has(field)) // null is neither absent nor true
                return from.read(field, from.parameters().at(std::string(field)), member);
        if (const Json* const value = from.find_field(field))
            return from.read(field, *value, member);
        if constexpr (std::is_same_v<decltype(member), double&>)
            if (const auto factor = from.factor_by_lengths(); factor && follows_from_lengths(scaling, field, from)) {
                member = *factor;
                return;
            }
        if (presence == Presence::required)
            throw Error(from.named(field) + " is missing, which the rope_type " + std::string(name_of(scaling)) +
                        " needs");
    };
    std::visit([&](auto& of) { visit_members(of, read); }, scaling);
    return scaling;
}

/// How many features of a head are rotated; nothing for all.
std::optional<std::size_t> features_of(const Reader& from, std::size_t head_width)
{
    constexpr std::string_view field = "partial_rotary_factor";
    const Json* const given = from.find_anywhere(field);
    if (given == nullptr)
        return std::nullopt;
    double part = 1;
    from.read(field, *given, part);
    const auto features = static_cast<std::size_t>(static_cast<double>(head_width) * part);
    if (features > head_width)
        throw from.wrong(field, *given, "a number up to 1");
    if (features == 0 || features % 2 != 0)
        throw from.wrong(field, *given,
                         "a part that makes pairs: of heads of " + std::to_string(head_width) + " features it is " +
                             std::to_string(features));
    return features == head_width ? std::nullopt : std::optional(features);
}

} // namespace

RotaryScaling rotary_scaling(const Json& parameters, const Json& config, std::string_view name)
{
    return read_scaling(Reader(parameters, config, name), {});
}

RotaryOptions rotary_options(const Json& parameters, const Json& config, std::size_t head_width, std::string_view name)
{
    const Json none = Json::object();
    const Reader from(parameters.is_null() ? none : parameters, config, name);
    RotaryOptions options{.layout = RotaryLayout::halves};
    if (const Json* const base = from.find_anywhere("rope_theta"))
        from.read("rope_theta", *base, options.base);
    options.features = features_of(from, head_width);
    options.scaling = read_scaling(from, {"rope_theta", "partial_rotary_factor"});
    return options;
}

RotaryOptions rotary_options(const Json& config, std::size_t head_width)
{
    for (const char* name : {"rope_scaling", "rope_parameters"})
        if (const Json* const parameters = find(config, name); parameters && !parameters->empty())
            return rotary_options(*parameters, config, head_width, name);
    return rotary_options(nullptr, config, head_width);
}

} // namespace attn::files
