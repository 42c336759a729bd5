#include "attn/vectors/grade.hpp"

#include "arrays.hpp"
#include "draw.hpp"

#include "attn/core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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
    Comparison(const Json& one, const std::map<std::string, Array, std::less<>>& answers) : case_(one)
    {
        const auto rows = one.value("rows", std::vector<std::size_t>{});
        for (const auto& [name, output] : one.at("outputs").items()) {
            const auto found = answers.find(name);
            if (found == answers.end())
                throw Error("there is no " + name + " among the results");
            mine_.emplace(name, rows_of(found->second, rows));
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
                                   bracketed(index_at(i, expected.shape)), number_text(found, type),
                                   number_text(other, type), limit);
            }
        }
        return text;
    }

private:
    Array right(const std::string& name) const { return array_of(case_.at("outputs").at(name)); }

    double tolerance(const std::string& name, NumberType type) const
    {
        return case_.at("outputs").at(name).at("tolerance").at(std::string(name_of(type))).get<double>();
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
        for (const Json& group : file.at("groups"))
            for (const Json& one : group.at("cases")) {
                (void)question(file, group, one);
                for (const auto& [name, output] : one.at("outputs").items()) {
                    (void)array_of(output);
                    for (const auto& [type, tolerance] : output.at("tolerance").items())
                        (void)tolerance.get<double>();
                }
                for (const auto& [id, outputs] : one.at("wrong").items())
                    (void)file.at("notes").at(id).at("sentence").get<std::string>();
            }
    } catch (const Json::exception& error) {
        throw Error("is not as vectors/schema.json says: " + std::string(error.what()));
    }
}

Json question(const Json& file, const Json& group, const Json& one)
{
    Json question{{"id", one.at("id")},
                  {"function", file.at("function")},
                  {"parameters", group.at("parameters")},
                  {"inputs", one.at("inputs")},
                  {"weights", one.value("weights", Json::object())}};
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
