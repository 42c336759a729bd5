// attn diff, as a user runs it.

#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/npy.hpp"
#include "attn/files/npz.hpp"
#include "attn/files/trace_file.hpp"

#include <nlohmann/json.hpp>

#include <limits>
#include <map>
#include <optional>

using namespace attn;
using namespace attn::files;

namespace {

using Words = std::vector<std::string>;
using Json = nlohmann::json;

/// A folder with the trace of lesson 2, and what somebody else computed.
class DiffDesk {
public:
    DiffDesk()
    {
        REQUIRE(run({"lesson_02_all_queries", "--quiet", "--trace", reference()}).code == 0);
        for (const Step& step : read_trace(reference()).steps)
            arrays[step.path] = step.value;
    }

    std::filesystem::path reference() const { return folder / "reference.npz"; }
    std::filesystem::path mine() const { return folder / "mine.npz"; }

    void put() const
    {
        Npz content{{}, {arrays.begin(), arrays.end()}, {}};
        if (!listing.empty())
            content.texts.emplace_back("attn_record.json", listing);
        write_npz(mine(), content);
    }

    /// attn diff reference.npz mine.npz and those words.
    Ended compared(const Words& words = {}) const
    {
        put();
        Words command{"attn", "diff", reference(), mine()};
        command.insert(command.end(), words.begin(), words.end());
        return run(command);
    }

    Json compared_as_json(Words words = {}) const
    {
        words.emplace_back("--json");
        const Ended ended = compared(words);
        CHECK(ended.errors == "");
        return Json::parse(ended.output);
    }

    TemporaryFolder folder;
    std::map<std::string, Array> arrays;
    std::string listing; ///< what attn_record says of them; empty where it did not write them
};

/// A mistake that nobody has made before.
void plant(DiffDesk& desk) { desk.arrays["scores"].values[1] += 1; }

/// What attn_record says of the array scores.
const std::string recorded =
    R"({"format": "attn record 1", "arrays": [{"name": "scores", "file": "model.py", "line": 62,
    "variable": "att", "function": "Attention.forward"}]})";

/// A message that ends a program: in one line, naming what it is about.
void expect_refusal(const Ended& ended, const std::string& about, const std::string& what)
{
    CAPTURE(about, what, ended.output, ended.errors);
    CHECK(ended.code == 2);
    CHECK(ended.output == "");
    CHECK(lines_in(ended.errors) == 1);
    CHECK_THAT(ended.errors, ContainsSubstring(about));
    CHECK_THAT(ended.errors, ContainsSubstring(what));
}

} // namespace

TEST_CASE("attn diff ends with 0 where all is the same, and says so in a line", "[cli][diff]")
{
    const DiffDesk desk;
    const Ended ended = desk.compared();
    CHECK(ended.code == 0);
    CHECK(ended.errors == "");
    CHECK(lines_in(ended.output) == 1);
    CHECK_THAT(ended.output, ContainsSubstring("mine.npz: the same: "));
    CHECK(run({"attn", "diff", desk.reference(), desk.reference()}).code == 0);
}

TEST_CASE("attn diff ends with 1 at a mistake, and names the number and the formula", "[cli][diff]")
{
    DiffDesk desk;
    plant(desk);
    const Ended ended = desk.compared();
    CHECK(ended.code == 1);
    CHECK(ended.errors == "");
    CHECK_THAT(ended.output,
               ContainsSubstring("first wrong step: scores differs in 1 of its 9 numbers: from MINE's own "
                                 "operands, queries @ keys.T gives 4 at [0,1]\n"
                                 "  worst: scores[0,1] (query 0, key 1): expected 4, found 5\n"));
    CHECK_THAT(ended.output, ContainsSubstring("mine.npz: different: "));
}

TEST_CASE("attn diff gives each step that differs a line, and one line to the same step of several heads",
          "[cli][diff]")
{
    const TemporaryFolder folder;
    REQUIRE(run({"lesson_06_multi_head", "--quiet", "--trace", folder / "right.npz"}).code == 0);
    REQUIRE(run({"lesson_06_multi_head", "--quiet", "--pitfall", "no_scale", "--trace", folder / "wrong.npz"}).code ==
            0);
    const std::string output = run({"attn", "diff", folder / "right.npz", folder / "wrong.npz"}).output;
    CHECK_THAT(output,
               ContainsSubstring("\nbug        head.1.scaled[") && ContainsSubstring("\ninherited  head.0.weights[") &&
                   ContainsSubstring("; and 1 more head.{i}.weights\n") &&
                   ContainsSubstring("\ninherited  head.0.context[") && ContainsSubstring("\ninherited  merged["));
}

TEST_CASE("attn diff --diagnose says which mistake it looks like, or that it knows none", "[cli][diff]")
{
    const TemporaryFolder folder;
    REQUIRE(run({"lesson_06_multi_head", "--quiet", "--trace", folder / "right.npz"}).code == 0);
    REQUIRE(
        run({"lesson_06_multi_head", "--quiet", "--pitfall", "scale_inverse", "--trace", folder / "wrong.npz"}).code ==
        0);
    const Words command{"attn", "diff", folder / "right.npz", folder / "wrong.npz", "--diagnose"};
    const Ended ended = run(command);
    CHECK(ended.code == 1);
    CHECK_THAT(ended.output,
               ContainsSubstring("looks like scale_inverse: Scores are multiplied by the root of d_k.\n"));
    CHECK_THAT(ended.output, ContainsSubstring("scaled = scores * sqrt(keys.shape[-1]) where scores / "));
    Words for_machines = command;
    for_machines.emplace_back("--json");
    const Json json = Json::parse(run(for_machines).output);
    REQUIRE(json["looks_like"].size() == 1);
    CHECK(json["looks_like"][0]["id"] == "scale_inverse");
    CHECK(json["looks_like"][0]["steps"][0] == json["first_wrong"]);

    DiffDesk other;
    plant(other);
    CHECK_THAT(other.compared({"--diagnose"}).output, ContainsSubstring("looks like none of the well-known mistakes"));
}

TEST_CASE("attn diff --json has the same facts for machines", "[cli][diff]")
{
    DiffDesk desk;
    plant(desk);
    desk.arrays.erase("output");
    const Json json = desk.compared_as_json();
    CHECK(json["same"] == false);
    CHECK(json["type"] == "float64");
    CHECK(json["first_wrong"] == "scores");
    CHECK(json["first_different"] == "scores");
    CHECK(json["missing_fails"] == false);
    CHECK_FALSE(json.contains("looks_like"));
    for (const Json& step : json["steps"])
        if (step["step"] == "scores") {
            CHECK(step["verdict"] == "bug");
            CHECK(step["worst"]["index"] == Json::array({0, 1}));
            CHECK(step["worst"]["expected"] == 4);
            CHECK(step["worst"]["found"] == 5);
            CHECK(step["absolute"] == 1);
        }
    desk.arrays["scores"].values[1] = std::numeric_limits<double>::quiet_NaN();
    CHECK(desk.compared_as_json()["first_wrong"] == "scores"); // NaN has no number in JSON
}

TEST_CASE("attn diff --map and --names translate names", "[cli][diff]")
{
    DiffDesk desk;
    auto scores = desk.arrays.extract("scores");
    scores.key() = "logits";
    desk.arrays.insert(std::move(scores));
    CHECK(desk.compared().code == 0); // the result is there, and right
    CHECK_THAT(desk.compared().output, ContainsSubstring("not compared: 1 arrays of MINE that are not a step"));
    CHECK(desk.compared({"--all"}).code == 1);
    CHECK_THAT(desk.compared({"--all"}).output, ContainsSubstring("extra: 1 arrays of MINE that are not a step"));
    CHECK_THAT(desk.compared({"--map", "logits=scores"}).output, !ContainsSubstring("that are not a step"));

    const Json json = desk.compared_as_json({"--names", "onnx"});
    CHECK(json["same"] == true); // behind a table, others are listed
    CHECK(json["extra"] == Json::array({"logits"}));
}

TEST_CASE("attn diff --all wants every step, and no array more", "[cli][diff]")
{
    DiffDesk desk;
    desk.arrays.erase("scores");
    CHECK(desk.compared().code == 0);
    const Ended ended = desk.compared({"--all"});
    CHECK(ended.code == 1);
    CHECK_THAT(ended.output, ContainsSubstring("missing: 1 steps that MINE does not have: scores\n"));
}

TEST_CASE("attn diff with nothing in common says how names are translated", "[cli][diff]")
{
    DiffDesk desk;
    desk.arrays = {{"logits", desk.arrays["scores"]}};
    const Ended ended = desk.compared();
    CHECK(ended.code == 1);
    CHECK_THAT(ended.output, ContainsSubstring("nothing in common"));
    CHECK_THAT(ended.output, ContainsSubstring("--map"));
}

TEST_CASE("attn diff's tolerances replace what is measured", "[cli][diff]")
{
    DiffDesk desk;
    plant(desk);
    desk.arrays = {{"scores", desk.arrays["scores"]}};
    CHECK(desk.compared().code == 1);
    CHECK(desk.compared({"--atol", "1"}).code == 0);
    CHECK(desk.compared({"--rtol", "0.2"}).code == 1);
    CHECK(desk.compared({"--rtol", "0.25"}).code == 0);
    CHECK(desk.compared({"--type", "bfloat16"}).code == 1);
}

TEST_CASE("attn diff on wrong usage ends with 2 and one line", "[cli][diff]")
{
    const DiffDesk desk;
    for (const Words& words : std::vector<Words>{{"--map", "scores"},
                                                 {"--map", "=scores"},
                                                 {"--map", "a="},
                                                 {"--map", "a[x]=scores"},
                                                 {"--names", "nobody"},
                                                 {"--type", "int8"},
                                                 {"--atol", "-1"},
                                                 {"--rtol", "nan"},
                                                 {"--atol", "x"},
                                                 {"--nonsense"},
                                                 {"stray"}}) {
        const Ended ended = desk.compared(words);
        CAPTURE(words, ended.errors);
        CHECK(ended.code == 2);
        CHECK(lines_in(ended.errors) == 1);
        CHECK(ended.output == "");
    }
    const Ended help = run({"attn", "diff", "--help"});
    CHECK(help.code == 0);
    for (const char* flag : {"REFERENCE", "MINE", "--map", "--names", "--atol", "--rtol", "--type", "--all",
                             "--diagnose", "--json", "transformer-lens"})
        CHECK_THAT(help.output, ContainsSubstring(flag));
}

TEST_CASE("attn diff on files that are of no use ends with 2 and says which one and why", "[cli][diff]")
{
    const DiffDesk desk;
    const auto compared = [&](const std::filesystem::path& mine) {
        return run({"attn", "diff", desk.reference(), mine, "--diagnose"});
    };
    const auto npy = [](const std::string& header, const std::string& numbers) {
        const std::string padded = header + std::string(118 - header.size() - 1, ' ') + '\n';
        return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + padded + numbers;
    };
    const std::filesystem::path folder = desk.folder / "npys", file = folder / "scores.npy";

    expect_refusal(compared(desk.folder / "nowhere.npz"), "nowhere.npz", "");
    put_bytes(desk.folder / "text.npz", "hello");
    expect_refusal(compared(desk.folder / "text.npz"), "text.npz", "");
    desk.put();
    const std::string whole = bytes_of(desk.mine());
    for (const std::size_t length : {std::size_t{0}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
        put_bytes(desk.folder / "short.npz", whole.substr(0, length));
        expect_refusal(compared(desk.folder / "short.npz"), "short.npz", "");
    }
    std::filesystem::create_directory(folder);
    expect_refusal(compared(folder), "npys", "is a folder without .npy files");
    put_bytes(file, npy("{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }", std::string(16, '\0')));
    expect_refusal(compared(folder), "scores.npy", "c16");
    put_bytes(file, npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", std::string(16, '\0')));
    expect_refusal(compared(folder), "scores.npy", "|O");
    put_bytes(file,
              npy("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 9), }", std::string(16, '\0')));
    expect_refusal(compared(folder), "scores.npy", "");
    put_bytes(file, npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000, 1000), }", std::string(16, '\0')));
    expect_refusal(compared(folder), "scores.npy", "is truncated");
    expect_refusal(run({"attn", "diff", desk.folder / "nowhere.npz", desk.mine()}), "nowhere.npz", "");
}

TEST_CASE("attn diff prints hostile names as text, and compares the rest", "[cli][diff]")
{
    const DiffDesk desk;
    const std::filesystem::path folder = desk.folder / "npys";
    std::filesystem::create_directory(folder);
    put_bytes(folder / "scores.npy", encode_npy(desk.arrays.at("scores")));
    put_bytes(folder / "\x1b[2Jgone\n.npy", encode_npy(desk.arrays.at("scores")));
    for (const Words& words : {Words{}, Words{"--json"}, Words{"--map", "\x1b[2Jgone\n=weights"}}) {
        Words command{"attn", "diff", desk.reference(), folder};
        command.insert(command.end(), words.begin(), words.end());
        const Ended ended = run(command);
        CAPTURE(ended.output, ended.errors);
        CHECK(ended.code == 1);
        CHECK(ended.output.find('\x1b') == std::string::npos);
        CHECK_THAT(ended.output, ContainsSubstring("gone"));
    }
}

TEST_CASE("attn diff says in which file and line a recorded array was assigned to which variable", "[cli][diff]")
{
    DiffDesk desk;
    desk.listing = recorded;
    plant(desk);
    CHECK(desk.compared().output.starts_with(
        "first wrong: att (model.py:62), in Attention.forward\nfirst wrong step: scores differs"));
    const Json json = desk.compared_as_json();
    for (const Json& step : json["steps"])
        CHECK(step.contains("origin") == (step["mine"] == "scores"));
    CHECK(json["steps"][0].contains("origin") == false);

    desk.listing.clear();
    CHECK(desk.compared().output.starts_with("first wrong step: scores differs"));
}

TEST_CASE("attn diff finds the origin of a part of a recorded array", "[cli][diff]")
{
    DiffDesk desk;
    desk.listing = recorded;
    plant(desk);
    Array twice = desk.arrays["scores"];
    twice.shape.front() *= 2;
    const std::vector<double> once = twice.values;
    twice.values.insert(twice.values.end(), once.begin(), once.end());
    desk.arrays["scores"] = twice;
    CHECK(desk.compared({"--map", "scores[1/2]=scores"}).output.starts_with("first wrong: att (model.py:62)"));
}

TEST_CASE("recorded arrays that are no step pass, unless all have to be one", "[cli][diff]")
{
    DiffDesk desk;
    desk.arrays["helper"] = desk.arrays["scores"];
    desk.listing = recorded;
    CHECK(desk.compared().code == 0);
    CHECK(desk.compared({"--all"}).code == 1);
}

TEST_CASE("attn diff refuses a malformed attn_record.json and names the file", "[cli][diff]")
{
    const std::vector<std::pair<std::string, std::string>> cases{
        {"[]", "is JSON, but no object"},
        {"{", "is no JSON"},
        {R"({"arrays": []})", "is not of the format attn record 1"},
        {R"({"format": "attn record 2", "arrays": []})", "is not of the format attn record 1"},
        {R"({"format": "attn record 1"})", "has no list arrays"},
        {R"({"format": "attn record 1", "arrays": [1]})", "has an array that is no object"},
        {R"({"format": "attn record 1", "arrays": [{"name": "scores"}]})", "without a whole number line"},
        {R"({"format": "attn record 1", "arrays": [{"line": 3, "file": "a.py"}]})", "without a text name"},
        {R"({"format": "attn record 1", "arrays": [{"name": "s", "file": "a", "line": -1}]})", "whole number line"},
        {R"({"format": "attn record 1", "arrays": [{"name": "s", "file": "a", "line": 1, "variable": "s", "function": "f", "reads": [1]}]})",
         "whose reads are no list of names"},
        {R"({"format": "attn record 1", "arrays": [], "results": "y"})", "whose results are no list of names"},
        {R"({"format": "attn record 1", "arrays": [{"name": "s", "file": "a", "line": 1, "variable": "s", "function": "f", "reads": ["s"]}]})",
         "says that s was computed from s, which does not come before it"},
        {R"({"format": "attn record 1", "arrays": [{"name": "s", "file": "a", "line": 1, "variable": "s", "function": "f", "reads": ["t"]},
             {"name": "t", "file": "a", "line": 2, "variable": "t", "function": "f", "reads": ["s"]}]})",
         "says that s was computed from t, which does not come before it"},
        {R"({"format": "attn record 1", "arrays": [{"name": "s"}, {"name": "s"}]})", "lists s twice"}};
    for (const auto& [text, what] : cases) {
        DiffDesk desk;
        desk.listing = text;
        const Ended ended = desk.compared();
        expect_refusal(ended, "mine.npz", what);
        CHECK_THAT(ended.errors, ContainsSubstring("attn_record.json"));
    }
}

TEST_CASE("a folder of .npy files can have an attn_record.json", "[cli][diff]")
{
    DiffDesk desk;
    plant(desk);
    const std::filesystem::path dump = desk.folder / "dump";
    std::filesystem::create_directory(dump);
    put_bytes(dump / "scores.npy", encode_npy(desk.arrays["scores"]));
    put_bytes(dump / "attn_record.json", recorded);
    CHECK(run({"attn", "diff", desk.reference(), dump}).output.starts_with("first wrong: att (model.py:62)"));
    put_bytes(dump / "attn_record.json", "{");
    expect_refusal(run({"attn", "diff", desk.reference(), dump}), "attn_record.json", "is no JSON");
}

// ------------------------------------------------------------------------------------------------ two runs

namespace {

/// Two files of plain arrays.
class RunsDesk {
public:
    RunsDesk() { arrays["scores"] = Array{{2, 3}, {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f}}; }

    Ended compared(const Words& words = {}) const
    {
        write_npz(a(), {{}, {{"scores", Array{{2, 3}, {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f}}}}, {}});
        write_npz(b(), {{}, {arrays.begin(), arrays.end()}, {}});
        Words command{"attn", "diff", a(), b()};
        command.insert(command.end(), words.begin(), words.end());
        return run(command);
    }

    std::filesystem::path a() const { return folder / "a.npz"; }
    std::filesystem::path b() const { return folder / "b.npz"; }

    TemporaryFolder folder;
    std::map<std::string, Array> arrays;
};

} // namespace

TEST_CASE("two files that are no traces are compared as runs", "[cli][diff]")
{
    RunsDesk desk;
    const Ended equal = desk.compared();
    CHECK(equal.code == 0);
    CHECK(equal.output == "results compared: A's scores, B's scores\nA is " + desk.a().string() + ", B is " +
                              desk.b().string() + ": bits equal: 1 compared as float64, 1 bits equal\n");

    desk.arrays["scores"].values[4] = 0.5f + 1e-7f;
    CHECK(desk.compared().code == 0);
    CHECK(Json::parse(desk.compared({"--json"}).output)["verdict"] == "rounding");

    desk.arrays["scores"].values[4] = 0.7f;
    const Ended different = desk.compared();
    CHECK(different.code == 1);
    CHECK(different.output.starts_with("first different array: scores: off by "));
    CHECK(different.output.find("worst: A[1,1] is 0.5, B[1,1] is 0.699999988\n") != std::string::npos);
    const Json json = Json::parse(desk.compared({"--json"}).output);
    CHECK(json["same"] == false);
    CHECK(json["pairs"][json["first_different"].get<std::size_t>()]["b"]["index"] == Json{1, 1});

    desk.arrays = {{"y", Array{{2}, {1, 2}}}};
    CHECK(desk.compared().code == 1);
    CHECK(desk.compared().output.starts_with("undecided: nothing in common"));
}

TEST_CASE("attn diff --json-file writes what --json prints, beside the text", "[cli][diff]")
{
    DiffDesk desk;
    desk.arrays["scores"].values[1] += 1;
    const std::filesystem::path file = desk.folder / "verdict.json";
    const Ended both = desk.compared({"--diagnose", "--json-file", file});
    CHECK(both.code == 1);
    CHECK(both.output == desk.compared({"--diagnose"}).output);
    CHECK(bytes_of(file) == desk.compared({"--diagnose", "--json"}).output);
    expect_refusal(desk.compared({"--json-file", desk.mine()}), "mine.npz", "would replace");
    expect_refusal(desk.compared({"--json-file", desk.folder / "absent" / "x.json"}), "x.json", "cannot be written");

    const RunsDesk runs;
    CHECK(runs.compared({"--json-file", file}).output == runs.compared().output);
    CHECK(bytes_of(file) == runs.compared({"--json"}).output);
}

TEST_CASE("two runs have no steps that flags could mean, and a trace comes first", "[cli][diff]")
{
    const RunsDesk desk;
    for (const Words& words : {Words{"--diagnose"}, Words{"--atol", "1"}, Words{"--map", "a=b"}, Words{"--all"},
                               Words{"--type", "float32"}, Words{"--names", "bert"}})
        expect_refusal(desk.compared(words), "a.npz",
                       "is no trace, so that two runs are compared: only --json and --json-file go with that");
    DiffDesk trace;
    trace.put();
    expect_refusal(run({"attn", "diff", desk.a(), trace.reference()}), "a.npz", "give the trace first");
}

namespace {

/// What attn_record says of arrays: name, line, and what each was computed from.
struct Recorded {
    std::string name;
    int line;
    Words reads;
    std::optional<int> call = {};
    std::string variable = name;
};

std::string listing_of(const std::vector<Recorded>& arrays, const Json& more = Json::object())
{
    Json listing = more;
    listing["format"] = "attn record 1";
    for (const Recorded& one : arrays) {
        listing["arrays"].push_back({{"name", one.name},
                                     {"file", "model.py"},
                                     {"line", one.line},
                                     {"variable", one.variable},
                                     {"function", "attention"},
                                     {"reads", one.reads}});
        if (one.call)
            listing["arrays"].back()["call"] = *one.call;
    }
    return listing.dump();
}

/// A program of one's own that was recorded beside attn run attention: exponentials stand between its scores and its weights, which
/// are no step.
class OwnProgram {
public:
    OwnProgram()
    {
        Array numbers{{3, 4}, {}, ElementType::real};
        std::vector<std::pair<std::string, Array>> inputs;
        double number = 0.3;
        for (const char* name : {"queries", "keys", "values"}) {
            numbers.values.clear();
            for (int i = 0; i < 12; ++i)
                numbers.values.push_back(number = 3.9 * number * (1 - number)); // never the same
            inputs.emplace_back(name, numbers);
        }
        write_npz(folder / "input.npz", Npz{{}, {inputs.begin(), inputs.end()}, {}});
        make_reference();
        for (const Step& step : read_trace(folder / "reference.npz").steps)
            arrays[step.path] = step.value;
        arrays = {{"q", arrays["queries"]}, {"k", arrays["keys"]},    {"v", arrays["values"]}, {"s", arrays["scaled"]},
                  {"w", arrays["weights"]}, {"y", arrays["context"]}, {"e", arrays["weights"]}};
        for (double& one : arrays["e"].values)
            one = one * one + 0.375;
    }

    void make_reference(const Words& flags = {}) const
    {
        Words command{"attn",
                      "run",
                      "attention",
                      "--input",
                      folder / "input.npz",
                      "--quiet",
                      "--trace",
                      folder / "reference.npz"};
        command.insert(command.end(), flags.begin(), flags.end());
        REQUIRE(run(command).code == 0);
    }

    Ended compared(const Words& words = {}) const
    {
        Npz content;
        for (const Recorded& one : listing) // in the order in which it was computed
            content.arrays.emplace_back(one.name, arrays.at(one.name));
        content.texts.emplace_back("attn_record.json", listing_of(listing, more));
        write_npz(folder / "mine.npz", content);
        Words command{"attn", "diff", folder / "reference.npz", folder / "mine.npz"};
        command.insert(command.end(), words.begin(), words.end());
        return run(command);
    }

    Json as_json() const { return Json::parse(compared({"--json"}).output); }

    TemporaryFolder folder;
    std::map<std::string, Array> arrays;
    std::vector<Recorded> listing{{"q", 1, {}},    {"k", 1, {}},    {"v", 1, {}},        {"s", 2, {"q", "k"}},
                                  {"e", 3, {"s"}}, {"w", 4, {"e"}}, {"y", 5, {"w", "v"}}};
    Json more = Json::object();
};

} // namespace

TEST_CASE("attn diff is undecided where only inputs were compared, and says so", "[cli][diff]")
{
    DiffDesk desk;
    desk.arrays = {{"inputs", desk.arrays["inputs"]}, {"query_weights", desk.arrays["query_weights"]}};
    const Ended ended = desk.compared();
    CHECK(ended.code == 1);
    CHECK_THAT(ended.output,
               ContainsSubstring("undecided: only what was given was compared, nothing that MINE computed") &&
                   ContainsSubstring("mine.npz: undecided: 2 compared"));
}

TEST_CASE("attn diff says where a dump has not the reference's result", "[cli][diff]")
{
    DiffDesk desk;
    CHECK_THAT(desk.compared().output, !ContainsSubstring("was not among what was compared"));
    CHECK(Json::parse(desk.compared({"--json"}).output)["compared"]["missing_result"].is_null());
    desk.arrays = {{"scores", desk.arrays["scores"]}};
    const Ended ended = desk.compared();
    CHECK(ended.code == 0); // of what was asked for, all is the same
    CHECK_THAT(ended.output, ContainsSubstring("the result, output, was not among what was compared"));
    CHECK(Json::parse(desk.compared({"--json"}).output)["compared"]["missing_result"] == "output");
}

TEST_CASE("attn diff is undecided where what a recorded call returned was not compared, and names it", "[cli][diff]")
{
    OwnProgram mine;
    mine.more = {{"results", {"y"}}};
    CHECK(mine.compared().code == 0);
    mine.arrays["z"] = mine.arrays["y"];
    for (double& number : mine.arrays["z"].values)
        number += 1;
    mine.listing.push_back({"z", 6, {"y"}});
    mine.more = {{"results", {"y", "z"}}};
    const Json json = mine.as_json();
    CHECK(json["verdict"] == "undecided");
    CHECK(json["compared"]["results"] == Json::array({"y"}));
    CHECK(json["compared"]["not_compared"] == Json::array({"z"}));
    CHECK_THAT(json["why_undecided"][0].get<std::string>(), ContainsSubstring("z (model.py:6), which MINE returned"));
}

TEST_CASE("attn diff is undecided where MINE computed the result, and returned a step before it", "[cli][diff]")
{
    OwnProgram mine;
    mine.more = {{"results", {"y"}}};
    REQUIRE(mine.compared().code == 0);
    mine.more = {{"results", {"w"}}};
    const Json json = mine.as_json();
    CHECK(json["verdict"] == "undecided");
    CHECK_THAT(json["why_undecided"][0].get<std::string>(),
               ContainsSubstring("and returned w, which is a step before it"));
}

TEST_CASE("attn diff --map takes an array that lacks an axis of one entry for a step that has it", "[cli][diff]")
{
    OwnProgram mine;
    Array one = mine.arrays["y"];
    one.shape = {1, 3, 4};
    Recording reference = read_trace(mine.folder / "reference.npz");
    for (const Shape& shape : {Shape{3, 1, 4}, Shape{1, 3, 4}, Shape{3, 4, 1}}) {
        reference.steps.push_back(
            {.path = "spread", .formula = "", .axes = {}, .module = "", .options = {}, .value = one});
        reference.steps.back().value.shape = shape;
        write_trace(mine.folder / "reference.npz", reference);
        reference.steps.pop_back();
        const Json json = Json::parse(mine.compared({"--map", "y=spread", "--json"}).output);
        CHECK(json["first_wrong"].is_null());
        CHECK(json["verdict"] != "different");
    }
}

TEST_CASE("attn diff is undecided where MINE returned a step before what the reference's pooler gives", "[cli][diff]")
{
    OwnProgram mine;
    const std::string bert = ATTN_SOURCE_FOLDER "/tests/golden/families/bert";
    write_npz(mine.folder / "input.npz", Npz{{}, {{"ids", read_npz(bert + "/expected.npz").at("ids")}}, {}});
    REQUIRE(run({"attn", "run", "model", "--weights", bert, "--input", mine.folder / "input.npz", "--quiet", "--trace",
                 mine.folder / "reference.npz"})
                .code == 0);
    const Recording reference = read_trace(mine.folder / "reference.npz");
    const auto value = [&](const char* path) { return reference.find(path)->value; };
    mine.arrays = {{"y", value("output")},
                   {"t", value("pooler.first")},
                   {"h", value("pooler.hidden")},
                   {"p", value("pooler.pooled")}};
    mine.listing = {{"y", 1, {}}, {"t", 2, {"y"}}, {"h", 3, {"t"}}, {"p", 4, {"h"}}};
    for (const Words& results : {Words{"y"}, {"y", "p"}, {"y", "h", "p"}}) {
        mine.more = {{"results", results}};
        CHECK(mine.as_json()["verdict"] == "the same");
    }
    mine.arrays.erase("p");
    mine.listing.pop_back();
    mine.more = {{"results", {"y", "h"}}};
    const Json json = mine.as_json(); // tanh is missing
    CHECK(json["verdict"] == "undecided");
    CHECK_THAT(json["why_undecided"][0].get<std::string>(),
               ContainsSubstring("MINE returned h, which is a step before a further result, pooler.pooled"));
}

TEST_CASE("what MINE returned beside a whole result is not taken for the result's last token", "[cli][diff]")
{
    OwnProgram mine;
    mine.arrays["z"] = Array{{4}, {1.5, -2, 0.25, 3}};
    mine.listing.push_back({"z", 6, {"y"}});
    mine.more = {{"results", {"y", "z"}}};
    const Json json = mine.as_json();
    CHECK(json["verdict"] == "undecided"); // it was different, with last_token = z
    CHECK(json["compared"]["not_compared"] == Json::array({"z"}));
}

TEST_CASE("attn diff is undecided where the last array of a dump was not compared: it can be the result", "[cli][diff]")
{
    DiffDesk desk;
    Array final = desk.arrays["output"];
    for (double& number : final.values)
        number *= 2;
    desk.arrays["z"] = final;
    const Ended ended = desk.compared();
    CHECK(ended.code == 1);
    CHECK_THAT(ended.output, ContainsSubstring("undecided: z, the last array of MINE, can be its result"));
    CHECK(desk.compared_as_json()["compared"]["not_compared"] == Json::array({"z"}));

    // what was saved before the result is listed and passes; so do whole numbers
    desk.arrays.erase("z");
    desk.arrays["aside"] = final;
    desk.arrays["z"] = Array{{2}, {3, 4}, ElementType::integer};
    CHECK(desk.compared().code == 0);
}

TEST_CASE("attn diff is undecided where a recording has not the reference's result, or lost something", "[cli][diff]")
{
    OwnProgram mine;
    mine.more = {{"incomplete", "the script ended by an exception"}};
    CHECK_THAT(mine.compared().output,
               ContainsSubstring("undecided: the recording is not complete: the script ended by an exception"));
    mine.more = Json::object();
    mine.arrays.erase("y");
    mine.listing.pop_back();
    const Ended ended = mine.compared();
    CHECK(ended.code == 1);
    CHECK_THAT(ended.output, ContainsSubstring("undecided: the result, context, was not compared"));
}

TEST_CASE("attn diff refuses a map of an array that MINE does not have", "[cli][diff]")
{
    const DiffDesk desk;
    expect_refusal(desk.compared({"--map", "Scores=scores"}), "Scores = scores", "MINE has no array Scores");
}

TEST_CASE("attn diff blames a line whose operands are explained, and gives an interval where one is not", "[cli][diff]")
{
    OwnProgram mine;
    mine.arrays["w"].values[0] += 0.25;
    for (std::size_t i = 0; i < 4; ++i) // and what follows from it: w would be innocent beside a right y
        mine.arrays["y"].values[i] += 0.25 * mine.arrays["v"].values[i];
    const Json json = mine.as_json();
    CHECK(json["between"]["last_right"]["line"] == 2);
    CHECK(json["between"]["first_wrong"]["line"] == 4);
    CHECK(mine.compared().output.starts_with("last right: s (model.py:2); first wrong: w (model.py:4)\n"));

    mine.arrays.erase("e");
    mine.listing.erase(mine.listing.begin() + 4);
    mine.listing[4].reads = {"s"};
    CHECK(mine.as_json()["between"] == nullptr);
    CHECK(mine.compared().output.starts_with("first wrong: w (model.py:4)"));
}

TEST_CASE(
    "attn diff blames a line that left out the mask where its own call had the scores, not where it was given them",
    "[cli][diff]")
{
    OwnProgram mine;
    mine.make_reference({"--mask", "causal"});
    mine.listing = {{"q", 1, {}},       {"k", 1, {}},           {"v", 1, {}}, {"s", 2, {"q", "k"}, 0},
                    {"w", 4, {"s"}, 0}, {"y", 5, {"w", "v"}, 0}};
    CHECK(mine.as_json()["between"] == nullptr);
    CHECK(mine.compared().output.starts_with("first wrong: w (model.py:4)"));
    mine.listing[4].call = 1;
    CHECK(mine.as_json()["between"]["first_wrong"]["line"] == 4);
}

TEST_CASE("attn diff blames what a line was given that is right elsewhere, if that is one array beside right ones",
          "[cli][diff]")
{
    OwnProgram mine;
    mine.arrays["right_e"] = mine.arrays["e"];
    mine.arrays["right_w"] = mine.arrays["w"];
    mine.arrays["e"].values[0] += 0.25;
    mine.arrays["w"].values[0] += 0.25;
    for (std::size_t i = 0; i < 4; ++i)
        mine.arrays["y"].values[i] += 0.25 * mine.arrays["v"].values[i];
    mine.listing = {{"q", 1, {}},         {"k", 1, {}},          {"v", 1, {}},
                    {"s", 2, {"q", "k"}}, {"right_e", 7, {"s"}}, {"right_w", 4, {"right_e"}, {}, "w"},
                    {"e", 3, {"s"}},      {"w", 4, {"e"}},       {"y", 5, {"w", "v"}}};
    CHECK(mine.compared().output.starts_with("first wrong: e (model.py:3)"));
    mine.listing[5].line = 6; // nothing says that the line of w is right
    CHECK(mine.as_json()["between"]["first_wrong"]["line"] == 5);
}
