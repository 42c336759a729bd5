// Families of models, read from their files.

#include "family.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace attn::files {
namespace {

const FamilyFile* find_file(std::string_view name)
{
    const auto files = family_files();
    const auto found = std::ranges::find(files, name, &FamilyFile::name);
    return found == files.end() ? nullptr : &*found;
}

/// A family's entries over those of the one that it is like.
Json merged(std::string_view name)
{
    const FamilyFile* file = find_file(name);
    if (file == nullptr)
        throw std::logic_error("no family's file is called " + std::string(name));
    Json own = Json::parse(file->json);
    if (!own.contains("like"))
        return own;
    Json all = merged(own["like"].get<std::string>());
    for (const auto& [key, value] : own.items()) {
        if (value.is_object() && all.contains(key))
            all[key].update(value);
        else
            all[key] = value;
    }
    return all;
}

std::string known_families()
{
    std::string known;
    for (const FamilyFile& file : family_files())
        if (file.name != "common")
            known += (known.empty() ? "" : ", ") + std::string(file.name);
    return known;
}

/// Our name of each map that can lie in a packed tensor, and what its rows are called there.
constexpr std::pair<std::string_view, std::string_view> maps_of_packing[] = {
    {"q_proj.", "query"},   {"k_proj.", "key"}, {"v_proj.", "value"},
    {"gate_proj.", "gate"}, {"up_proj.", "up"}, {"g_proj.", "output_gate"}};

/// Whether a packing, such as "query, key, value by group", has a map of that name.
bool packs(const std::string& packing, std::string_view part)
{
    const std::string maps = ", " + packing.substr(0, packing.find(" by ")) + ",";
    return maps.find(", " + std::string(part) + ",") != std::string::npos;
}

/// What a field of the configuration does.
void apply(Settings& settings, const std::string& name, const Json& rule, const Json& value)
{
    try {
        if (rule.contains("sets"))
            set(settings, rule["sets"].get<std::string>(), value);
        else if (rule.contains("must_be") && value != rule["must_be"])
            throw Error("is " + value.dump() + ", expected " + rule["must_be"].dump() + ": " +
                        rule["because"].get<std::string>());
    } catch (const Error& error) {
        throw Error(name + " " + error.what());
    }
}

} // namespace

namespace {

/// Whether a configuration has the value that a variant asks for, or one of a list; null for a field that is absent.
bool holds(const Json& config, const Json& condition)
{
    for (const auto& [field, wanted] : condition.items()) {
        const auto given = config.find(field);
        const Json value = given == config.end() ? Json() : *given;
        const bool is_right = wanted.is_array() ? std::ranges::find(wanted, value) != wanted.end() : value == wanted;
        if (!is_right)
            return false;
    }
    return true;
}

void add_variant(Family& family, const Json& variant)
{
    if (variant.contains("refused"))
        throw Error("has " + variant["if"].dump() + ": " + variant["refused"].get<std::string>());
    for (const auto& [key, entries] : {std::pair("always", &family.always), // of a variant or a tower
                                       {"fields", &family.fields},
                                       {"names", &family.names},
                                       {"unpack", &family.unpack},
                                       {"packed_experts", &family.packed_experts},
                                       {"not_computed", &family.not_computed}})
        if (variant.contains(key))
            entries->update(variant[key]);
}

/// The class whose result is the last hidden states, without a head: LlamaModel of LlamaForCausalLM.
std::string base_architecture(const Family& family)
{
    const std::string& head = family.architectures.front();
    const std::size_t end = std::min({head.find("ForCausalLM"), head.find("LMHeadModel"),
                                      head.find("ForConditionalGeneration"), head.find("MTModel")});
    return end == std::string::npos
               ? ""
               : head.substr(0, end) + (family.model_type.ends_with("_text") ? "TextModel" : "Model");
}

} // namespace

Family family_of(const Json& config, const std::string& tower)
{
    const auto type = config.find("model_type");
    if (type == config.end() || !type->is_string())
        throw Error("has no model_type, which says what family the model is of");
    const std::string model_type = type->get<std::string>();
    const auto is_known = [](const std::string& name) { return name != "common" && find_file(name) != nullptr; };
    if (!is_known(model_type)) {
        const Json text = config.value("text_config", Json()),
                   type_of_text = text.is_object() ? text.value("model_type", Json()) : Json();
        const std::string part = type_of_text.is_string() ? type_of_text.get<std::string>() : "";
        throw Error("model_type \"" + model_type + "\" is not known" +
                    (is_known(part) ? ", and its text_config is of the family " + part +
                                          ": save its language model alone, by save_pretrained() of that part"
                                    : "; known are " + known_families()));
    }
    const Json all = merged(model_type);
    const auto object = [&](const char* key) { return all.contains(key) ? all[key] : Json::object(); };
    const Json& architecture = all["architecture"];
    Family family{.model_type = model_type,
                  .architectures = architecture.is_string() ? std::vector{architecture.get<std::string>()}
                                                            : architecture.get<std::vector<std::string>>(),
                  .always = object("always"),
                  .fields = object("fields"),
                  .names = object("names"),
                  .older_names = object("older_names"),
                  .copies = object("copies"),
                  .unpack = object("unpack"),
                  .packed_experts = object("packed_experts"),
                  .squeezed = all.contains("squeezed") ? all["squeezed"] : Json::array(),
                  .kernels = all.contains("kernels") ? all["kernels"] : Json::array(),
                  .ignored = all.contains("ignored") ? all["ignored"] : Json::array(),
                  .not_computed = object("not_computed"),
                  .variants = all.contains("variants") ? all["variants"] : Json::array(),
                  .towers = object("towers"),
                  .base_prefix = all.value("base_prefix", ""),
                  .shared_layer = all.value("shared_layer", ""),
                  .frequencies = all.value("frequencies", "")};
    if (!tower.empty())
        add_variant(family, family.towers.at(tower));
    for (const Json& variant : family.variants)
        if (holds(config, variant["if"]))
            add_variant(family, variant);
    return family;
}

std::vector<std::string> towers_of(const Family& family, const Json& config)
{
    if (family.towers.empty())
        return {""};
    const Json alone = family.towers["encoder"].value("alone", Json());
    if (!alone.is_null() && config.value("architectures", Json()) == Json{alone})
        return {"encoder"};
    return {"encoder", "decoder"};
}

NamedArrays tensors_of_tower(const NamedArrays& arrays, const Family& family, const std::string& tower)
{
    const auto is_of_another = [&](const std::string& name) {
        for (const auto& [other, entries] : family.towers.items())
            for (const Json& beginning : entries["tensors"]) {
                const std::string own = beginning.get<std::string>();
                if (other != tower && (name.starts_with(own) || name.starts_with(family.base_prefix + own)))
                    return true;
            }
        return false;
    };
    NamedArrays of_tower = arrays;
    std::erase_if(of_tower, [&](const auto& entry) { return is_of_another(entry.first); });
    return of_tower;
}

Settings settings_of(const Family& family, const Json& config, const std::vector<std::string>& accepted)
{
    for (const std::string& name : accepted)
        if (!config.contains(name) || family.fields.contains(name))
            throw Error(std::string("has ") + (config.contains(name) ? "a known field " : "no field ") + name +
                        ", and --accept is for those that are not known");
    std::vector<std::string> unknown;
    for (const auto& [name, value] : config.items())
        if (!family.fields.contains(name) && std::ranges::find(accepted, name) == accepted.end())
            unknown.push_back(name);
    if (!unknown.empty()) {
        std::string names, flags;
        for (const std::string& name : unknown) {
            names += (names.empty() ? "" : ", ") + name;
            flags += " --accept " + name;
        }
        const bool is_one = unknown.size() == 1;
        throw Error(std::string("has ") + (is_one ? "a field " : "fields ") + names + ", which " +
                    (is_one ? "is" : "are") + " not known of the family " + family.model_type + ": what " +
                    (is_one ? "it changes" : "they change") +
                    " could not be computed. If you know that it changes nothing:" + flags);
    }
    Settings settings;
    for (const auto& [name, value] : family.always.items())
        set(settings, name, value);
    for (const auto& [name, rule] : family.fields.items()) {
        if (const auto given = config.find(name); given != config.end())
            apply(settings, name, rule, *given);
        else if (rule.contains("default"))
            apply(settings, name, rule, rule["default"]);
    }
    if (settings.own_layers)
        settings.layers = settings.own_layers;
    settings.activation = settings.own_activation.value_or(settings.activation);
    if (settings.own_gate)
        settings.is_gated = settings.own_gate;
    const auto is_of_config = [&](const std::string& name) { return *settings.architectures == std::vector{name}; };
    const bool is_encoder_alone = towers_of(family, config) == std::vector<std::string>{"encoder"};
    if (!settings.architectures || is_encoder_alone || std::ranges::any_of(family.architectures, is_of_config))
        return settings;
    if (const std::string base = base_architecture(family); is_of_config(base)) {
        settings.has_logits = false;
    } else {
        std::string known;
        for (const std::string& name : family.architectures)
            known += (known.empty() ? "" : " and ") + name;
        if (family.towers.contains("encoder") && family.towers["encoder"].contains("alone"))
            known += " and " + family.towers["encoder"]["alone"].get<std::string>();
        if (!base.empty() && std::ranges::find(family.architectures, base) == family.architectures.end())
            known += " and " + base;
        throw Error("architectures " + config["architectures"].dump() + " is not known; known of this family is " +
                    known);
    }
    return settings;
}

NamedArrays renamed(NamedArrays arrays, const Family& family)
{
    NamedArrays all;
    for (auto& [name, array] : arrays) {
        std::string now = name;
        for (const auto& [before, after] : family.older_names.items())
            if (now.ends_with(before))
                now.replace(now.size() - before.size(), before.size(), after.get<std::string>());
        if (!all.emplace(now, std::move(array)).second)
            throw Error(now + " is there twice, under its name of before, too");
    }
    for (const auto& [copy, original] : family.copies.items()) {
        const auto found = all.find(copy), same = all.find(original.get<std::string>());
        if (found == all.end())
            continue;
        if (same == all.end() || !identical(found->second, same->second))
            throw Error(copy + " is not the same as " + original.get<std::string>() + ", expected a copy of it");
        all.erase(found);
    }
    return all;
}

NamedArrays with_each_layer(NamedArrays arrays, const Family& family, std::size_t layers)
{
    if (family.shared_layer.empty())
        return arrays;
    NamedArrays all;
    for (auto& [name, array] : arrays) {
        const std::size_t at = name.find(family.shared_layer);
        if (at == std::string::npos) {
            all.emplace(name, std::move(array));
            continue;
        }
        for (std::size_t i = 0; i < layers; ++i)
            all.emplace(name.substr(0, at) + "layers." + std::to_string(i) + "." +
                            name.substr(at + family.shared_layer.size()),
                        array);
    }
    return all;
}

std::vector<std::string> take_not_computed(NamedArrays& arrays, const Family& family)
{
    std::vector<std::string> lines;
    for (const auto& [part, what] : family.not_computed.items()) {
        if (what.is_null()) // it is, in this family
            continue;
        std::string names;
        for (auto at = arrays.begin(); at != arrays.end();) {
            const bool is_part = at->first.starts_with(part) || at->first.starts_with(family.base_prefix + part);
            if (is_part)
                names += (names.empty() ? "" : ", ") + at->first;
            at = is_part ? arrays.erase(at) : std::next(at);
        }
        if (!names.empty())
            lines.push_back(names + ": " + what.get<std::string>());
    }
    return lines;
}

Dialect dialect_of(const Family& family, const Settings& settings, const NamedArrays& arrays, const Part& part)
{
    const std::string& base = family.base_prefix;
    const bool lacks_base =
        !base.empty() && std::ranges::none_of(arrays, [&](const auto& entry) { return entry.first.starts_with(base); });
    Dialect dialect{.family = family.model_type, .maps_are_in_out = settings.maps_are_in_out};
    for (const auto& [ours, theirs] : family.names.items()) {
        std::string name = theirs.is_null() ? "(none)." : theirs.get<std::string>();
        if (lacks_base && name.starts_with(base))
            name.erase(0, base.size());
        if (ours == "layers." && !part.is_at_beginning())
            for (std::size_t i = 0; i < part.size(); ++i)
                dialect.names.emplace_back(ours + std::to_string(i) + ".", name + std::to_string(part.first + i) + ".");
        dialect.names.emplace_back(ours, name);
    }
    for (const auto& [packed, packing] : family.unpack.items())
        for (const auto& [ours, map] : maps_of_packing)
            if (packs(packing.get<std::string>(), map))
                dialect.names.emplace_back(ours, packed.substr(packed.rfind('.') + 1) + "." + std::string(map) + ".");
    std::ranges::stable_sort(dialect.names, std::greater<>(), [](const auto& name) { return name.first.size(); });
    for (const Json& ending : family.ignored)
        dialect.ignored.push_back(ending.get<std::string>());
    return dialect;
}

} // namespace attn::files
