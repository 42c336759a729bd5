#include "commands.hpp"
#include "modules/module.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/cli/shared_flags.hpp"
#include "attn/core/error.hpp"
#include "attn/core/recorder.hpp"
#include "attn/files/deferred_signals.hpp"
#include "attn/files/file.hpp"
#include "attn/files/json_file.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/show/graph/process.hpp"
#include "attn/vectors/grade.hpp"
#include "attn/vectors/models.hpp"
#include "attn/vectors/vectors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <stdlib.h> // mkdtemp

namespace attn::cli {
namespace {

struct Request {
    std::size_t seed = 1;
    std::filesystem::path output, folder, junit, trace;
    bool has_formulas = false;
    std::string program;
    std::size_t limit = 60; // seconds
    std::vector<std::string> functions;
    NumberType type = NumberType::float64;
};

// ---------------------------------------------------------------------------------------------------------------- make

files::NamedArrays named(const vectors::Arrays& arrays) { return {arrays.begin(), arrays.end()}; }

/// The flag of `attn run` that a parameter is, and its value as a command line has it.
std::pair<std::string, std::string> flag_of(const std::string& parameter, const vectors::Json& value)
{
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (parameter == "causal") // the flag is called after what it adds to: the input mask
        return {"--mask", text == "bottom-right" ? "causal" : "causal-" + text};
    std::string flag = "--" + parameter;
    std::ranges::replace(flag, '_', '-');
    return {flag, text};
}

Recording run_module(const std::string& name, const vectors::Json& parameters, const vectors::Arrays& inputs,
                     const vectors::Arrays& weights)
{
    const std::vector<Module> all = modules(); // with flags of their own
    const auto module = std::ranges::find(all, name, &Module::name);
    if (module == all.end())
        throw std::logic_error("there is no module " + name);
    for (const auto& [parameter, value] : parameters.items()) {
        const auto [flag, text] = flag_of(parameter, value);
        const auto found = std::ranges::find(module->flags, flag, &Flag::name);
        if (found == module->flags.end())
            throw std::logic_error(name + " has no flag " + flag);
        found->value.take(text);
    }
    module->check(!weights.empty());
    const files::NamedArrays input_arrays = named(inputs);
    files::NamedArrays weight_arrays = named(weights);
    Recorder recorder;
    const Trace trace(recorder);
    std::vector<files::Parameter> learned;
    module->run({Inputs(input_arrays, *module), weight_arrays, trace, learned, {}, false});
    return recorder.recording();
}

int make(const Request& request)
{
    std::error_code error;
    std::filesystem::create_directories(request.output, error);
    if (error)
        throw files::FileError(request.output, "is no folder, and can't be made: " + error.message());
    std::size_t files = 0, cases = 0, bytes = 0;
    for (const vectors::File& file : vectors::make_vectors(request.seed, run_module)) {
        const std::string json = vectors::to_json(file, ATTN_VERSION, request.has_formulas);
        files::write_file(request.output / (file.name + ".json"), json);
        for (const vectors::Group& group : file.groups)
            cases += group.cases.size();
        ++files;
        bytes += json.size();
    }
    print("{}: {} files, {} cases, {} bytes\n", request.output.string(), files, cases, bytes);
    return 0;
}

/// Writes what each mistake makes of a trace's output: an array each, and mistakes.json, which says what was changed.
int make_mistakes(const Request& request)
{
    expect_not_replaced("-o", request.output, {request.trace});
    files::Npz content;
    vectors::Json texts = vectors::Json::object();
    for (vectors::MistakenResult& one : vectors::mistaken_results(files::read_trace(request.trace), "output")) {
        const std::string name = one.mistake + '.' + std::to_string(texts.size());
        texts[name] = {{"mistake", one.mistake}, {"formulas", one.formulas}};
        content.arrays.emplace_back(name, std::move(one.value));
    }
    content.texts.emplace_back("mistakes.json", texts.dump(1));
    files::write_npz(request.output, content);
    print("{}: {} results\n", request.output.string(), content.arrays.size());
    return 0;
}

// --------------------------------------------------------------------------------------------------------------- grade

std::vector<vectors::Json> read_vectors(const Request& request)
{
    std::vector<vectors::Json> all;
    if (request.folder.empty())
        for (const vectors::File& file : vectors::make_vectors(request.seed, run_module))
            all.push_back(vectors::Json::parse(vectors::to_json(file, ATTN_VERSION)));
    std::vector<std::filesystem::path> paths;
    if (!request.folder.empty()) {
        if (!std::filesystem::is_directory(request.folder))
            throw Error("--vectors: ", request.folder.string(), " is no folder; vectors/cases of the project is one");
        for (const auto& entry : std::filesystem::directory_iterator(request.folder))
            if (entry.path().extension() == ".json")
                paths.push_back(entry.path());
        std::ranges::sort(paths);
    }
    for (const std::filesystem::path& path : paths) {
        all.emplace_back(files::read_json_object(path, "a file of vectors"));
        files::about_file(path, "", [&] { vectors::expect_vectors(all.back()); });
    }
    if (all.empty())
        throw Error("--vectors: ", request.folder.string(),
                    " has no files of vectors; vectors/cases of the project has");
    for (const std::string& function : request.functions)
        if (std::ranges::none_of(all, [&](const vectors::Json& file) { return file.at("function") == function; }))
            throw Error("--function: there are no vectors of ", function);
    return all;
}

/// A folder of this program's own that is gone when this is, whatever signal ends the program.
class OwnFolder {
public:
    OwnFolder()
    {
        std::error_code error;
        std::string path = (std::filesystem::temp_directory_path(error) / "attn-vectors-XXXXXX").string();
        if (error || ::mkdtemp(path.data()) == nullptr)
            throw Error("no temporary folder can be made: ",
                        (error ? error : std::error_code(errno, std::generic_category())).message(),
                        "; TMPDIR says where");
        path_ = path;
    }
    ~OwnFolder()
    {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    OwnFolder(const OwnFolder&) = delete;
    OwnFolder& operator=(const OwnFolder&) = delete;

    std::filesystem::path operator/(const char* name) const { return path_ / name; }

private:
    files::DeferredSignals deferred_; // outlives the folder
    std::filesystem::path path_;
};

/// A path as the shell reads it within quotes, or without any (0).
std::string quoted(const std::string& path, char quote)
{
    std::string text;
    for (const char c : path)
        if (quote == '"')
            text += (std::string_view("\"\\$`").find(c) != std::string_view::npos ? "\\" : "") + std::string(1, c);
        else
            text += c == '\'' ? "'\\''" : std::string(1, c);
    return quote == 0 ? "'" + text + "'" : text;
}

/// The command with paths in place of {input} and {output}, whatever quotes stand around these.
std::string with_paths(std::string_view command, const std::map<std::string, std::string>& paths)
{
    std::string text;
    char quote = 0; // that is open
    while (!command.empty()) {
        const auto is_next = [&](const auto& path) { return command.starts_with(path.first); };
        if (const auto path = std::ranges::find_if(paths, is_next); path != paths.end()) {
            text += quoted(path->second, quote);
            command.remove_prefix(path->first.size());
            continue;
        }
        const char c = command.front();
        const std::size_t taken = c == '\\' && quote != '\'' ? std::min<std::size_t>(command.size(), 2) : 1;
        if ((c == '\'' || c == '"') && (quote == 0 || quote == c))
            quote = quote == 0 ? c : 0;
        text += command.substr(0, taken);
        command.remove_prefix(taken);
    }
    return text;
}

/// Runs the program for one case.
/// @throws Error where it fails, or its result is unusable
vectors::Answers ask(const Request& request, const vectors::Json& question, const OwnFolder& folder)
{
    constexpr int not_expressed = 77; // as Automake's tests say so
    const std::filesystem::path input = folder / "input.json", output = folder / "output.json";
    files::write_file(input, question.dump());
    std::filesystem::remove(output);
    const std::string command =
        with_paths(request.program, {{"{input}", input.string()}, {"{output}", output.string()}});
    const show::ProcessResult ended = show::run_process(
        {"/bin/sh", "-c", command}, "", std::chrono::seconds(request.limit), {}, show::ProcessOutput::shared);
    if (ended.end == show::ProcessResult::End::too_slow)
        throw Error("the program ran for more than ", request.limit, " s; --limit S allows S seconds");
    if (ended.code == not_expressed)
        return std::nullopt;
    if (constexpr int signals = 128; ended.code > signals)
        throw Error("the program was stopped by signal ", ended.code - signals, ", exit code ", ended.code);
    if (ended.code != 0)
        throw Error("the program ended with exit code ", ended.code);
    const nlohmann::json found = files::read_json_object(output, "the results of the program");
    std::map<std::string, Array, std::less<>> answers;
    for (const auto& [name, array] : found.items())
        answers.emplace(name, vectors::array_of(array));
    return answers;
}

vectors::Grade graded(const Request& request, const vectors::Json& file, const vectors::Json& group,
                      const vectors::Json& one, const OwnFolder& folder)
{
    try {
        return vectors::grade(file, one, ask(request, vectors::question(file, group, one), folder), request.type);
    } catch (const Error& error) {
        return {one.at("id"), file.at("function"), vectors::Grade::Verdict::failed, {}, error.what()};
    }
}

/// @return exit code
int report(const std::vector<vectors::Grade>& grades, NumberType type)
{
    using Verdict = vectors::Grade::Verdict;
    const auto count = [&](Verdict verdict) { return std::ranges::count(grades, verdict, &vectors::Grade::verdict); };
    for (const vectors::Grade& one : grades)
        if (one.verdict == Verdict::failed || one.verdict == Verdict::accepted)
            print("{} {}: {}\n", one.verdict == Verdict::failed ? "failed" : "passed", one.id, one.message);
    const auto passed = count(Verdict::passed) + count(Verdict::accepted), failed = count(Verdict::failed);
    print("{} of {} cases passed in {}, {} failed, {} not expressed\n", passed, grades.size(), name_of(type), failed,
          count(Verdict::skipped));
    if (failed > 0 && std::ranges::all_of(grades, [](const vectors::Grade& one) {
            return one.verdict != Verdict::failed || one.passes_in_float32;
        }))
        print("in float32 all of them pass: if the program computes in that, say so with --type float32\n");
    if (passed + failed == 0)
        print("nothing was checked: the program expresses none of the cases (exit code 77)\n");
    return failed == 0 && passed > 0 ? 0 : 1;
}

int grade_program(const Request& request)
{
    for (const std::string what : {"{input}", "{output}"})
        if (request.program.find(what) == std::string::npos)
            throw Error("--program: there is no ", what, " in the command, expected such as './mine {input} {output}'");
    const std::vector<vectors::Json> all = read_vectors(request);
    const OwnFolder folder;
    std::vector<vectors::Grade> grades;
    for (const vectors::Json& file : all) {
        if (!request.functions.empty() &&
            std::ranges::find(request.functions, file.at("function").get<std::string>()) == request.functions.end())
            continue;
        for (const vectors::Json& group : file.at("groups"))
            for (const vectors::Json& one : group.at("cases")) {
                grades.push_back(graded(request, file, group, one, folder));
                if (files::DeferredSignals::is_interrupted())
                    throw Error("a signal ended it"); // which comes when the folder is gone
            }
    }
    if (!request.junit.empty())
        files::write_file(request.junit, vectors::to_junit(grades));
    return report(grades, request.type);
}

int run(const Request& request)
{
    if (request.output.empty() == request.program.empty())
        throw Error("expected one of -o FOLDER, to make vectors, and --program COMMAND, to check a program by them");
    if (!request.trace.empty())
        return make_mistakes(request);
    return request.program.empty() ? make(request) : grade_program(request);
}

} // namespace

Command vectors_command()
{
    const auto request = std::make_shared<Request>();
    return {
        .name = "vectors",
        .summary = "test vectors that name mistakes: make them, or check a program by them",
        .details =
            "A program is run once for each case. It reads a JSON file with function, parameters, inputs and\n"
            "weights, and writes one with the results: {\"output\": {\"shape\": [2, 3], \"values\": [...]}}.\n"
            "A case of several calls also has requests, how many calls each request has; the names of what a call\n"
            "is given and gives begin with its number: calls.0.x, calls.0.output. Inputs without one are given to\n"
            "each. Exit code 77 says that it does not express the case.\n",
        .groups = {{"To make them",
                    {{"-o,--output", "FOLDER", request->output, "write all files into this folder"},
                     {"--mistakes-of", "TRACE.npz", request->trace,
                      "write what each mistake makes of this trace's output, into the file .npz that --output names: "
                      "an array each, and mistakes.json with the formulas that it changes",
                      false, "--output", "--formulas"},
                     {"--formulas", "", request->has_formulas,
                      "beside what a mistake gives, the formulas that it changes: for those who check the files", false,
                      "--output"}}},
                   {"To check a program",
                    {{"--program", "COMMAND", request->program,
                      "a command with {input} and {output} in it: './mine {input} {output}'"},
                     {"--vectors", "FOLDER", request->folder,
                      "the files, such as vectors/cases (default: those of the seed, made anew)", false, "--program",
                      "--seed"},
                     {"--function", "NAME", request->functions, "only this function", false, "--program"},
                     {"--limit", "S", whole_number(request->limit, 1, 1'000'000), "seconds that a case can take", false,
                      "--program"},
                     {"--type", "", one_of(request->type), "in which the program computes", false, "--program"},
                     {"--junit", "FILE.xml", request->junit, "write a report for build servers", false, "--program"}}},
                   {"Both",
                    {{"--seed", "S", whole_number(request->seed, 0), "of the numbers: other vectors of the same kind",
                      false}}}},
        .run = [request] { return run(*request); }};
}

} // namespace attn::cli
