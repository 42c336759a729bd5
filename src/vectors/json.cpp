#include "calls.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>

namespace attn::vectors {
namespace {

Json number(double value)
{
    if (std::isnan(value))
        return "NaN";
    if (std::isinf(value))
        return value > 0 ? "Infinity" : "-Infinity";
    constexpr double many = 1e6;
    if (value == std::floor(value) && std::abs(value) < many && !(value == 0 && std::signbit(value)))
        return static_cast<std::int64_t>(value);
    return value;
}

Json array(const Array& array)
{
    Json json{{"shape", array.shape}, {"values", Json::array()}};
    if (array.type != ElementType::real)
        json["type"] = array.type == ElementType::boolean ? "bool" : "int64";
    for (const double value : array.values)
        json["values"].push_back(number(value));
    return json;
}

/// By a formula of their places, the numbers that are real.
Json inputs(const Case& one)
{
    Json json = Json::object();
    for (const auto& [name, value] : one.inputs) {
        json[name] = array(value);
        if (!one.has_formulas || value.type != ElementType::real)
            continue;
        const PlaceFormula formula = place_formula(one.seed, name);
        json[name].erase("values");
        json[name]["multiplier"] = formula.multiplier;
        json[name]["offset"] = formula.offset;
    }
    return json;
}

Json outputs(const std::vector<Output>& outputs)
{
    Json json = Json::object();
    for (const Output& output : outputs) {
        Json& one = json[output.name] = array(output.value);
        for (const auto& [type, tolerance] : output.tolerance)
            one["tolerance"][std::string(name_of(type))] = Json::parse(fmt::format("{:.1e}", 1.05 * tolerance));
    }
    return json;
}

/// To so many digits as it takes to tell arrays apart that are not what is checked.
Json shortened(double value)
{
    return std::isfinite(value) ? Json::parse(fmt::format("{:.7g}", value)) : number(value);
}

/// What a convention or a mistake gives.
Json alternatives(const std::vector<Alternative>& alternatives, bool with_formulas)
{
    Json json = Json::object();
    for (const Alternative& one : alternatives) {
        Json outputs = Json::object();
        for (const Output& output : one.outputs)
            for (const double value : output.value.values)
                outputs[output.name].push_back(shortened(value));
        if (with_formulas)
            outputs["formulas"] = one.formulas;
        json[one.name] = std::move(outputs);
    }
    return json;
}

Json json_of(const Case& one, bool with_formulas)
{
    std::set<std::string> flags;
    for (const Alternative& wrong : one.wrong)
        flags.insert(wrong.name);
    Json json{{"id", one.id},
              {"comment", one.comment},
              {"result", one.accepted.empty() ? "valid" : "acceptable"},
              {"flags", flags}};
    if (!one.requests.empty())
        json["requests"] = one.requests;
    json["inputs"] = inputs(one);
    if (!one.weights.empty())
        for (const auto& [name, value] : one.weights)
            json["weights"][name] = array(value);
    const bool has_steps = one.requests.empty() || with_formulas; // those of several calls are long
    for (const Step& step : one.steps.steps)
        if (has_steps && (!step.formula.empty() || with_formulas)) {
            Json entry{{"name", step.path}, {"formula", step.formula}};
            entry.update(array(step.value));
            for (std::size_t i = 0; i < step.value.size(); ++i)
                entry["values"][i] = shortened(step.value.values[i]);
            json["steps"].push_back(std::move(entry));
        }
    for (const Alias& alias : one.steps.aliases)
        if (has_steps)
            json["aliases"][alias.path] = alias.target;
    if (!one.rows.empty())
        json["rows"] = one.rows;
    json["outputs"] = outputs(one.outputs);
    if (!one.accepted.empty())
        json["accepted"] = alternatives(one.accepted, with_formulas);
    json["wrong"] = alternatives(one.wrong, with_formulas);
    return json;
}

/// Of each mistake that a case is about, the sentence, what it changes, and where it was seen.
Json notes(const File& file)
{
    std::set<std::string> ids;
    for (const Group& group : file.groups)
        for (const Case& one : group.cases)
            for (const Alternative& wrong : one.wrong)
                ids.insert(wrong.name);
    const auto note = [](const auto& mistake) {
        return Json{{"sentence", mistake.sentence}, {"why", mistake.why}, {"seen", mistake.link}};
    };
    Json notes = Json::object();
    for (const std::string& id : ids)
        notes[id] = file.has_calls ? note(find_call_mistake(id)) : note(mistakes::find_pitfall(id));
    return notes;
}

/// JSON that people can read: what is short, and each array, is a line.
void print(std::string& text, const Json& json, std::size_t indent)
{
    constexpr std::size_t width = 120;
    std::string line = json.dump();
    if (!json.is_structured() || line.size() + indent <= width || json.contains("values") ||
        (json.is_array() && !json.front().is_structured())) {
        text += line;
        return;
    }
    const std::string margin(indent + 1, ' ');
    text += json.is_object() ? "{\n" : "[\n";
    std::size_t left = json.size();
    for (const auto& [key, value] : json.items()) {
        text += margin;
        if (json.is_object())
            text += Json(key).dump() + ": ";
        print(text, value, indent + 1);
        text += --left > 0 ? ",\n" : "\n";
    }
    text += std::string(indent, ' ') + (json.is_object() ? "}" : "]");
}

} // namespace

std::string to_json(const File& file, std::string_view version, bool with_formulas)
{
    Json json{{"schema", schema},    {"version", version},   {"function", file.function}, {"title", file.title},
              {"about", file.about}, {"notes", notes(file)}, {"groups", Json::array()}};
    for (const Group& group : file.groups) {
        Json entry{{"comment", group.comment}, {"parameters", group.parameters}, {"cases", Json::array()}};
        for (const Case& one : group.cases)
            entry["cases"].push_back(json_of(one, with_formulas));
        json["groups"].push_back(std::move(entry));
    }
    std::string text;
    print(text, json, 0);
    return text + "\n";
}

} // namespace attn::vectors
