#include "attn/vectors/grade.hpp"

#include "sources.hpp"
#include "test.hpp"

#include "attn/core/error.hpp"

#include <cmath>

using namespace attn;
using namespace attn::vectors;
using Verdict = Grade::Verdict;

namespace {

Json file_of(const std::string& name) { return Json::parse(test::source_file("vectors/cases/" + name + ".json").text); }

/// The right results of a case.
std::map<std::string, Array, std::less<>> right(const Json& one)
{
    std::map<std::string, Array, std::less<>> answers;
    for (const auto& [name, output] : one.at("outputs").items())
        answers.emplace(name, array_of(output));
    return answers;
}

/// The same with what an alternative has.
std::map<std::string, Array, std::less<>> wrong(const Json& one, const Json& alternative)
{
    auto answers = right(one);
    for (const auto& [name, values] : alternative.items())
        answers.at(name).values = array_of({{"shape", {values.size()}}, {"values", values}}).values;
    return answers;
}

} // namespace

TEST_CASE("what is right passes in every type, and a mistake's result is called after it", "[vectors]")
{
    for (const std::string name :
         {"attention_causal", "attention_masks", "layer_norm", "attention_backward", "attention_calls",
          "beam_attention_calls", "padded_attention_calls", "paged_attention_calls"}) {
        const Json file = file_of(name);
        for (const Json& group : file.at("groups"))
            for (const Json& one : group.at("cases")) {
                CAPTURE(one.at("id").get<std::string>());
                for (const NumberType type :
                     {NumberType::float64, NumberType::float32, NumberType::float16, NumberType::bfloat16})
                    CHECK(grade(file, one, right(one), type).verdict == Verdict::passed);
                for (const auto& [id, alternative] : one.at("wrong").items()) {
                    const Grade found = grade(file, one, wrong(one, alternative), NumberType::float64);
                    CHECK(found.verdict == Verdict::failed);
                    CHECK(std::ranges::find(found.names, id) != found.names.end());
                }
            }
    }
}

TEST_CASE("conventions are accepted, and said", "[vectors]")
{
    const Json file = file_of("attention_masks");
    std::size_t accepted = 0;
    for (const Json& group : file.at("groups"))
        for (const Json& one : group.at("cases")) {
            const Json conventions = one.value("accepted", Json::object());
            for (const auto& [name, alternative] : conventions.items()) {
                const Grade found = grade(file, one, wrong(one, alternative), NumberType::float32);
                CHECK(found.verdict == Verdict::accepted);
                CHECK(found.names == std::vector<std::string>{name});
                ++accepted;
            }
        }
    CHECK(accepted == 2); // NaN, and the mean
}

TEST_CASE("a number that is off by more than the tolerance fails, and is named by its place", "[vectors]")
{
    const Json file = file_of("rms_norm"), one = file.at("groups")[0].at("cases")[0];
    auto answers = right(one);
    answers.at("output").values[1] += 1e-3;
    const Grade found = grade(file, one, answers, NumberType::float32);
    CHECK(found.verdict == Verdict::failed);
    CHECK(found.message.starts_with("output[0,1] is "));
    CHECK(found.message.ends_with("no mistake that this case has gives it"));
    answers.at("output").values[1] = NAN;
    CHECK(grade(file, one, answers, NumberType::bfloat16).verdict == Verdict::failed);
}

TEST_CASE("a number of a result of which some rows are given is named by its place in the whole", "[vectors]")
{
    const Json file = file_of("attention_tiles");
    std::size_t checked = 0;
    for (const Json& group : file.at("groups"))
        for (const Json& one : group.at("cases")) {
            const auto rows = one.value("rows", std::vector<std::size_t>{});
            const Array given = array_of(one.at("outputs").at("output"));
            if (rows.empty() || rows.back() + 1 == rows.size())
                continue;
            const std::size_t width = given.shape[1];
            Array whole{{rows.back() + 1, width}, std::vector<double>((rows.back() + 1) * width)};
            for (std::size_t i = 0; i < rows.size(); ++i)
                std::copy_n(given.values.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                            whole.values.begin() + static_cast<std::ptrdiff_t>(rows[i] * width));
            CHECK(grade(file, one, {{{"output", whole}}}, NumberType::float64).verdict == Verdict::passed);
            whole.values[rows.back() * width + 1] += 1e3;
            const Grade found = grade(file, one, {{{"output", whole}}}, NumberType::float64);
            CHECK(found.message.starts_with("output[" + std::to_string(rows.back()) + ",1] is "));
            ++checked;
        }
    CHECK(checked > 3);
}

TEST_CASE("a result of another shape, none, and a case that is not expressed are told apart", "[vectors]")
{
    const Json file = file_of("rms_norm"), one = file.at("groups")[0].at("cases")[0];
    auto answers = right(one);
    std::swap(answers.at("output").shape[0], answers.at("output").shape[1]);
    CHECK(grade(file, one, answers, NumberType::float64).message.starts_with("output has the shape"));
    CHECK(grade(file, one, std::map<std::string, Array, std::less<>>{}, NumberType::float64).message ==
          "there is no output among the results");
    CHECK(grade(file, one, std::nullopt, NumberType::float64).verdict == Verdict::skipped);
}

TEST_CASE("an answer that is no array says what was expected", "[vectors]")
{
    CHECK_THROWS_WITH(array_of(Json::parse("[1, 2]")), ContainsSubstring("expected an array"));
    CHECK_THROWS_WITH(array_of(Json::parse(R"({"shape": [3], "values": [1, 2]})")),
                      ContainsSubstring("expected 3 values"));
    CHECK_THROWS_WITH(array_of(Json::parse(R"({"shape": [1], "values": ["inf"]})")), ContainsSubstring("\"Infinity\""));
    CHECK_THROWS_WITH(array_of(Json::parse(R"({"shape": [-1], "values": []})")), ContainsSubstring("sizes"));
}

TEST_CASE("a file that is not as the schema says is refused, and not used", "[vectors]")
{
    const Json file = file_of("rms_norm");
    CHECK_NOTHROW(expect_vectors(file));
    const auto refused = [&](const char* pointer, const Json& value) {
        Json other = file;
        other[Json::json_pointer(pointer)] = value;
        CHECK_THROWS_AS(expect_vectors(other), Error);
    };
    refused("/schema", "vectors_schema_2");
    refused("/groups", 1);
    refused("/notes", Json::object());
    refused("/groups/0/cases/0/outputs/output/values", "none");
    refused("/groups/0/cases/0/outputs/output/tolerance/float32", "small");
    refused("/groups/0/cases/0/wrong", 1);
    // What a program of zeros could pass, or what reads beyond a result.
    const std::string one = "/groups/0/cases/0", output = one + "/outputs/output";
    refused((one + "/outputs").c_str(), Json::object());
    refused((one + "/inputs").c_str(), Json::object());
    refused((one + "/id").c_str(), 7);
    refused((output + "/tolerance/float64").c_str(), -1);
    refused((output + "/tolerance").c_str(), Json::object());
    refused((output + "/shape").c_str(), {0, 4});
    refused((output + "/shape").c_str(), {4294967296, 4294967296});
    refused((output + "/values").c_str(), Json::array());
    refused((one + "/accepted").c_str(), {{"x", {{"output", Json::array()}}}});
    refused((one + "/accepted").c_str(), {{"x", Json::object()}});
    refused((one + "/rows").c_str(), {100000000, 0});
    refused((one + "/inputs/x").c_str(), {{"shape", {1000000000, 1000000000}}, {"multiplier", 3}, {"offset", 1}});
    refused("/groups", Json::array());
    CHECK_THROWS_WITH(expect_vectors(Json::parse(R"({"schema": "vectors_schema_1"})")), ContainsSubstring("groups"));
}

TEST_CASE("several calls are those that requests counts, each with inputs and an output", "[vectors]")
{
    const Json file = file_of("attention_calls");
    CHECK_NOTHROW(expect_vectors(file));
    const auto refused = [&](const Json& requests, const std::string& from = "", const std::string& to = "") {
        Json other = file;
        Json& one = other["groups"][0]["cases"][0];
        one["requests"] = requests;
        if (!from.empty()) {
            std::string text = one.dump();
            for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
                text.replace(at, from.size(), to);
            one = Json::parse(text);
        }
        CAPTURE(requests.dump(), from, to);
        CHECK_THROWS_AS(expect_vectors(other), Error);
    };
    for (const char* requests : {"[]", "[0, 5]", "[5, -1]", "[4]", "[6]", "[2.5, 2.5]", "[\"5\"]", "[1000000000]", "5",
                                 "null", "{\"5\": 5}", "[18446744073709551615, 6]", "[true, true, true, true, true]"})
        refused(Json::parse(requests));
    const Json right = file["groups"][0]["cases"][0]["requests"];
    refused(right, "calls.1.queries", "calls.9.queries");
    for (const char* name :
         {"calls.9.output", "output", "calls.x.output", "calls.01.output", "calls.-1.output", "calls.1."})
        refused(right, "calls.1.output", name);
    Json other = file;
    other["groups"][0]["cases"][0].erase("requests");
    CHECK_THROWS_WITH(expect_vectors(other), ContainsSubstring("is of no call"));
}

TEST_CASE("a question of several calls says how many each request has", "[vectors]")
{
    const Json file = file_of("attention_calls"), group = file["groups"][0], one = group["cases"][0];
    const Json asked = question(file, group, one);
    CHECK(asked.at("requests") == one.at("requests"));
    CHECK(asked.at("inputs").contains("calls.4.queries"));
}

TEST_CASE("JUnit's report has each case, and no character that XML does not allow", "[vectors]")
{
    const std::vector<Grade> grades{{"a/1/1", "attention", Verdict::passed, {}, ""},
                                    {"a/1/2", "attention", Verdict::failed, {}, "0 < 1 & \"2\""},
                                    {"a/1/3", "attention", Verdict::skipped, {}, "not expressed"}};
    const std::string xml = to_junit(grades);
    CHECK_THAT(xml, ContainsSubstring("tests=\"3\" failures=\"1\" skipped=\"1\""));
    CHECK_THAT(xml, ContainsSubstring("message=\"0 &lt; 1 &amp; &quot;2&quot;\""));
    CHECK_THAT(xml, ContainsSubstring("name=\"a/1/3\"><skipped/>"));
}
