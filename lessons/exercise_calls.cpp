#include "exercise_calls.hpp"

#include "attn/files/file.hpp"

#include <nlohmann/json.hpp>

namespace attn {
namespace {

using Json = nlohmann::ordered_json;

std::string reference_name(std::size_t number)
{
    return "reference." + std::to_string(number) + ".";
}

/// What a file has of a reference: all steps, since mistakes are looked for in them; of a
/// call that is told in words, where none is named, the right result alone.
Recording kept(const ExpectedCall& expected)
{
    if (expected.call.task.empty())
        return expected.reference;
    const Step& right = expected.reference.at(expected.step);
    return {{{right.path, "", right.axes, "", {}, right.value}}, {}};
}

Json to_json(const ExpectedCall& expected)
{
    const Call& call = expected.call;
    Json json{{"function", call.function},
              {"parameters", Json::array()},
              {"step", expected.step},
              {"steps", Json::array()},
              {"aliases", Json::array()}};
    if (!call.result.empty())
        json.update({{"result", call.result}, {"place", call.place}});
    if (!call.task.empty())
        json["task"] = call.task;
    for (const Argument& argument : call.arguments)
        json["parameters"].push_back(argument.name);
    for (const Step& step : expected.reference.steps)
        json["steps"].push_back(
            {{"path", step.path}, {"formula", step.formula}, {"axes", step.axes}});
    for (const Alias& alias : expected.reference.aliases)
        json["aliases"].push_back({{"path", alias.path}, {"target", alias.target}});
    return json;
}

/// The arrays whose names begin so, by the rest of their names.
files::NamedArrays beginning_with(const files::NamedArrays& arrays,
                                  const std::string& prefix)
{
    files::NamedArrays found;
    for (auto at = arrays.lower_bound(prefix);
         at != arrays.end() && at->first.starts_with(prefix); ++at)
        found.emplace(at->first.substr(prefix.size()), at->second);
    return found;
}

ExpectedCall from_json(const Json& json, std::size_t number,
                       const files::NamedArrays& arrays)
{
    ExpectedCall expected{
        {.function = json.at("function"),
         .result = json.value("result", ""),
         .place = json.value("place", std::size_t{0}),
         .task = json.value("task", "")},
        {},
        json.at("step"),
    };
    for (const std::string name : json.at("parameters")) {
        const std::string whole = call_name(number) + "." + name;
        const auto alone = arrays.find(whole);
        expected.call.arguments.emplace_back(
            name, alone != arrays.end() ? files::NamedArrays{{"", alone->second}}
                                        : beginning_with(arrays, whole + "."));
    }
    for (const Json& step : json.at("steps"))
        expected.reference.steps.push_back(
            {step.at("path"),
             step.at("formula"),
             step.at("axes").get<std::vector<std::string>>(),
             "",
             {},
             arrays.at(reference_name(number) + step.at("path").get<std::string>())});
    for (const Json& alias : json.at("aliases"))
        expected.reference.aliases.push_back({alias.at("path"), alias.at("target")});
    return expected;
}

} // namespace

std::string call_name(std::size_t number) { return "call." + std::to_string(number); }

void write_calls(const std::filesystem::path& path,
                 const std::vector<ExpectedCall>& calls)
{
    files::Npz content;
    Json json = Json::array();
    for (std::size_t number = 0; number < calls.size(); ++number) {
        const ExpectedCall& given = calls[number];
        const ExpectedCall expected{given.call, kept(given), given.step};
        json.push_back(to_json(expected));
        for (const Argument& argument : expected.call.arguments)
            for (const auto& [name, array] : argument.arrays)
                content.arrays.emplace_back(call_name(number) + "." + argument.name +
                                                (name.empty() ? "" : "." + name),
                                            array);
        for (const Step& step : expected.reference.steps)
            content.arrays.emplace_back(reference_name(number) + step.path, step.value);
    }
    content.texts.emplace_back("calls.json", json.dump());
    files::write_npz(path, content);
}

std::vector<ExpectedCall> read_calls(const std::filesystem::path& path)
{
    const std::optional<std::string> text = files::NpzReader(path).text("calls.json");
    if (!text)
        throw files::FileError(path, "has no calls.json, so it is no exercise");
    const files::NamedArrays arrays = files::read_npz(path);
    std::vector<ExpectedCall> calls;
    try {
        for (const Json& call : Json::parse(*text))
            calls.push_back(from_json(call, calls.size(), arrays));
    } catch (const nlohmann::json::exception& error) {
        throw files::FileError(path, std::string("calls.json: ") + error.what());
    } catch (const std::out_of_range&) {
        throw files::FileError(path, "an array that calls.json names is missing");
    }
    return calls;
}

} // namespace attn
