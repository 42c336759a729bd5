#include "attn/vectors/grade.hpp"

#include "arrays.hpp"
#include "draw.hpp"

#include "attn/core/choices.hpp"
#include "attn/core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace attn::vectors {
namespace {

// Alternatives have seven digits.
constexpr double nearest = 1e-6;

double number_of(const Json& json)
{
    if (json.is_number())
        return json.get<double>();
    const std::string text = json.is_string() ? json.get<std::string>() : "";
    if (text == "NaN")
        return NAN;
    if (text == "Infinity" || text == "-Infinity")
        return text.front() == '-' ? -INFINITY : INFINITY;
    throw Error("expected a number, or \"NaN\", \"Infinity\" or \"-Infinity\", found " + json.dump());
}

std::vector<double> numbers_of(const Json& json)
{
    if (!json.is_array())
        throw Error("expected a list of numbers, found " + json.dump().substr(0, 40));
    std::vector<double> values;
    for (const Json& value : json)
        values.push_back(number_of(value));
    return values;
}

/// One case, and what a program gives for it.
class Comparison {
public:
    Comparison(const Json& one, const std::map<std::string, Array, std::less<>>& answers)
        : case_(one), rows_(one.value("rows", std::vector<std::size_t>{}))
    {
        for (const auto& [name, output] : one.at("outputs").items()) {
            const auto found = answers.find(name);
            if (found == answers.end())
                throw Error("there is no " + name + " among the results");
            mine_.emplace(name, rows_of(found->second, rows_));
        }
    }

    bool is_right(NumberType type) const
    {
        return std::ranges::all_of(mine_, [&](const auto& mine) {
            return is_same(mine.second, right(mine.first), tolerance(mine.first, type));
        });
    }

    /// The alternatives whose results these are.
    std::vector<std::string> named(const char* which, NumberType type) const
    {
        std::vector<std::string> names;
        const Json alternatives = case_.value(which, Json::object());
        for (const auto& [name, outputs] : alternatives.items())
            if (is_alternative(outputs, type))
                names.push_back(name);
        return names;
    }

    /// Where it is furthest out: "output[0,3] is 0.41, expected 0.32 (tolerance 1.1e-06)".
    std::string worst(NumberType type) const
    {
        std::string text;
        double most = 0;
        for (const auto& [name, mine] : mine_) {
            const Array expected = right(name);
            if (mine.shape != expected.shape)
                return name + " has the shape " + to_string(mine.shape) + ", expected " + to_string(expected.shape);
            for (std::size_t i = 0; i < mine.size(); ++i) {
                const double found = mine.values[i], other = expected.values[i], limit = tolerance(name, type);
                const double off = times_off(found, other, limit);
                if (off <= most)
                    continue;
                most = off;
                text = fmt::format("{}{} is {}, expected {} (tolerance {:.2g})", name,
                                   bracketed(whole_index(i, expected.shape)), number_text(found, type),
                                   number_text(other, type), limit);
            }
        }
        return text;
    }

private:
    /// Where a number is in the program's result, of which the case may have some rows.
    Shape whole_index(std::size_t offset, const Shape& shape) const
    {
        Shape index = index_at(offset, shape);
        if (!rows_.empty())
            index.end()[-2] = rows_.at(index.end()[-2]);
        return index;
    }

    Array right(const std::string& name) const { return array_of(case_.at("outputs").at(name)); }

    double tolerance(const std::string& name, NumberType type) const
    {
        const Json& by_type = case_.at("outputs").at(name).at("tolerance");
        const std::string wanted(name_of(type));
        if (!by_type.contains(wanted))
            throw Error("has no tolerance of " + wanted + ", expected float64, float32, float16 or bfloat16");
        return by_type.at(wanted).get<double>();
    }

    bool is_alternative(const Json& outputs, NumberType type) const
    {
        return std::ranges::all_of(mine_, [&](const auto& mine) {
            const auto& [name, found] = mine;
            Array expected = right(name);
            double near = tolerance(name, type);
            if (outputs.contains(name)) {
                expected.values = numbers_of(outputs.at(name));
                near = std::max(near, nearest) * std::max(1.0, largest_of(expected));
            }
            return is_same(found, expected, near);
        });
    }

    const Json& case_;
    std::vector<std::size_t> rows_;
    std::map<std::string, Array> mine_;
};

std::string joined(const std::vector<std::string>& names)
{
    std::string text;
    for (const std::string& name : names)
        text += (text.empty() ? "" : " or ") + name;
    return text;
}

std::string escaped(std::string_view text)
{
    std::string result;
    for (const char c : text)
        switch (c) {
        case '&':
            result += "&amp;";
            break;
        case '<':
            result += "&lt;";
            break;
        case '>':
            result += "&gt;";
            break;
        case '"':
            result += "&quot;";
            break;
        default:
            result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
        }
    return result;
}

} // namespace

namespace {

void expect(bool holds, const std::string& complaint)
{
    if (!holds)
        throw Error(complaint);
}

/// The shape of an input, all of whose numbers are there, or are given by a formula of their places.
void expect_input(const Json& input)
{
    constexpr std::size_t most = 10'000'000; // numbers that a formula makes
    if (!input.contains("multiplier"))
        return (void)array_of(input);
    expect(input.at("multiplier").is_number_unsigned() && input.at("offset").is_number_unsigned(),
           "multiplier and offset are no whole numbers");
    expect(element_count(input.at("shape").get<Shape>()) <= most, "more than 10 million numbers are made by a formula");
}

/// What an alternative has of the outputs; formulas stand beside them where they were asked for.
void expect_alternative(const Json& alternative, const Json& outputs)
{
    std::size_t count = 0;
    for (const auto& [name, values] : alternative.items()) {
        if (name == "formulas")
            continue;
        expect(outputs.contains(name), "there is no output " + name);
        expect(numbers_of(values).size() == array_of(outputs.at(name)).size(),
               name + " has " + std::to_string(values.size()) + " numbers, expected as many as the output");
        ++count;
    }
    expect(count > 0, "it has no output");
}

/// The call that a name is of: 2 for "calls.2.output"; nothing where it is of none.
std::optional<std::size_t> call_of(std::string_view name)
{
    constexpr std::string_view scope = "calls.";
    if (!name.starts_with(scope))
        return std::nullopt;
    std::size_t call = 0;
    const char *const begin = name.data() + scope.size(), *const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(begin, end, call);
    expect(error == std::errc() && rest + 1 < end && *rest == '.' &&
               std::to_string(call).size() == std::size_t(rest - begin),
           std::string(name) + " names no call, expected such as calls.0.output");
    return call;
}

/// Each call has inputs and outputs, and there is no other call.
void expect_calls(const Json& one)
{
    constexpr std::size_t most = 1000;
    std::size_t calls = 0;
    if (one.contains("requests")) {
        expect(one["requests"].is_array() && !one["requests"].empty(),
               "requests is no list of how many calls each has");
        for (const Json& of_request : one["requests"]) {
            expect(of_request.is_number_unsigned() && of_request > 0 && of_request <= most,
                   "requests has " + of_request.dump() + ", expected 1 to 1000 calls");
            calls += of_request.get<std::size_t>();
            expect(calls <= most, "requests has more than 1000 calls");
        }
        expect(!one.contains("rows"), "it has several calls, and rows of an output");
    }
    for (const char* part : {"inputs", "outputs"}) {
        std::vector<bool> has(calls);
        for (const auto& [name, array] : one.at(part).items()) {
            const std::optional<std::size_t> call = call_of(name);
            expect(!call || *call < calls, name + " is of no call that requests has");
            expect(call || calls == 0 || part == std::string_view("inputs"),
                   name + " is of no call, expected such as calls.0.output");
            if (call)
                has[*call] = true;
        }
        expect(std::ranges::find(has, false) == has.end(), std::string("a call has no ") + part);
    }
}

/// A case that a program of zeros could pass is none.
void expect_case(const Json& one)
{
    expect(!one.at("inputs").empty(), "it has no inputs");
    for (const char* part : {"inputs", "weights"})
        for (const Json inputs = one.value(part, Json::object()); const auto& [name, input] : inputs.items())
            expect_input(input);
    const Json& outputs = one.at("outputs");
    expect(outputs.is_object() && !outputs.empty(), "it has no outputs");
    expect_calls(one);
    const auto rows = one.value("rows", std::vector<std::size_t>{});
    for (const auto& [name, output] : outputs.items()) {
        const Array array = array_of(output);
        expect(array.size() > 0, name + " has no numbers");
        expect(rows.empty() || (array.rank() >= 2 && array.shape.end()[-2] == rows.size()),
               name + " is " + to_string(array.shape) + ", expected a row for each of the " +
                   std::to_string(rows.size()) + " in rows");
        for (const NumberType type : computed_types)
            if (const double tolerance = output.at("tolerance").at(std::string(name_of(type))).get<double>();
                !(tolerance > 0) || !std::isfinite(tolerance))
                throw Error(name + " has the tolerance " + fmt::format("{}", tolerance) + " in " +
                            std::string(name_of(type)) + ", expected a number above 0");
    }
    for (const char* which : {"accepted", "wrong"})
        for (const Json all = one.value(which, Json::object()); const auto& [name, alternative] : all.items())
            try {
                expect_alternative(alternative, outputs);
            } catch (const Error& error) {
                throw Error(std::string(which) + " " + name + ": " + error.what());
            }
}

} // namespace

Array array_of(const Json& json)
{
    if (!json.is_object() || !json.contains("shape") || !json.contains("values"))
        throw Error("expected an array, {\"shape\": [2, 3], \"values\": [...]}, found " + json.dump().substr(0, 40));
    Array array;
    for (const Json& size : json.at("shape")) {
        if (!size.is_number_unsigned())
            throw Error("expected sizes in a shape, found " + size.dump());
        array.shape.push_back(size.get<std::size_t>());
    }
    array.values = numbers_of(json.at("values"));
    if (element_count(array.shape) != array.size())
        throw Error("expected " + std::to_string(element_count(array.shape)) + " values of an array " +
                    to_string(array.shape) + ", found " + std::to_string(array.size()));
    return array;
}

void expect_vectors(const Json& file)
{
    try {
        if (const std::string found = file.value("schema", "none"); found != schema)
            throw Error("has the schema " + found + ", expected " + std::string(schema));
        expect(!file.at("groups").empty() && file.at("function").is_string(), "it has no groups, or no function");
        for (const Json& group : file.at("groups")) {
            expect(group.at("parameters").is_object() && !group.at("cases").empty(), "a group has no cases");
            for (const Json& one : group.at("cases")) {
                const std::string id = one.at("id").get<std::string>();
                try {
                    expect_case(one);
                } catch (const Error& error) {
                    throw Error(id + ": " + error.what());
                }
                for (const auto& [mistake, outputs] : one.at("wrong").items())
                    (void)file.at("notes").at(mistake).at("sentence").get<std::string>();
            }
        }
    } catch (const Json::exception& error) {
        const std::string what = error.what(); // "[json.exception.out_of_range.403] key 'cases' not found"
        throw Error("is not as vectors/schema.json says: " + what.substr(what.find(']') + 2));
    }
}

Json question(const Json& file, const Json& group, const Json& one)
{
    Json question{{"id", one.at("id")},
                  {"function", file.at("function")},
                  {"parameters", group.at("parameters")},
                  {"inputs", one.at("inputs")},
                  {"weights", one.value("weights", Json::object())}};
    if (one.contains("requests"))
        question["requests"] = one["requests"];
    for (Json& input : question["inputs"])
        if (input.contains("multiplier")) {
            const PlaceFormula formula{input["multiplier"], input["offset"]};
            for (std::size_t i = 0; i < element_count(input["shape"].get<Shape>()); ++i)
                input["values"].push_back(formula.at(i));
            input.erase("multiplier");
            input.erase("offset");
        }
    return question;
}

Grade grade(const Json& file, const Json& one, const Answers& answers, NumberType type)
{
    Grade grade{one.at("id"), file.at("function"), Grade::Verdict::skipped, {}, "not expressed"};
    if (!answers)
        return grade;
    try {
        const Comparison comparison(one, *answers);
        grade.message.clear();
        grade.verdict = Grade::Verdict::passed;
        if (comparison.is_right(type))
            return grade;
        grade.verdict = Grade::Verdict::accepted;
        grade.names = comparison.named("accepted", type);
        if (!grade.names.empty()) {
            grade.message = "accepted: " + joined(grade.names);
            return grade;
        }
        grade.verdict = Grade::Verdict::failed;
        grade.passes_in_float32 = type == NumberType::float64 && comparison.is_right(NumberType::float32);
        grade.names = comparison.named("wrong", type);
        grade.message = grade.names.empty() ? comparison.worst(type) + "; no mistake that this case has gives it"
                                            : "your numbers are those of " + joined(grade.names);
        if (grade.names.size() == 1)
            grade.message += ": " + file.at("notes").at(grade.names.front()).at("sentence").get<std::string>();
    } catch (const Error& error) {
        grade.verdict = Grade::Verdict::failed;
        grade.message = error.what();
    }
    return grade;
}

std::string to_junit(std::span<const Grade> grades)
{
    const auto count = [&](Grade::Verdict verdict) { return std::ranges::count(grades, verdict, &Grade::verdict); };
    std::string xml = fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                                  "<testsuite name=\"vectors\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
                                  grades.size(), count(Grade::Verdict::failed), count(Grade::Verdict::skipped));
    for (const Grade& one : grades) {
        xml += fmt::format(" <testcase classname=\"{}\" name=\"{}\"", escaped(one.function), escaped(one.id));
        if (one.verdict == Grade::Verdict::failed)
            xml += fmt::format("><failure message=\"{}\"/></testcase>\n", escaped(one.message));
        else
            xml += one.verdict == Grade::Verdict::skipped ? "><skipped/></testcase>\n" : "/>\n";
    }
    return xml + "</testsuite>\n";
}

} // namespace attn::vectors
