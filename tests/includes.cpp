// Dependencies point one way. Each room of the house says whom it can see; this test reads who it does see.

#include "sources.hpp"
#include "test.hpp"

#include <map>
#include <set>

using namespace attn::test;

namespace {

using Rooms = std::set<std::string>;

Rooms with(Rooms rooms, const Rooms& further)
{
    rooms.insert(further.begin(), further.end());
    return rooms;
}

/// Whom each room may include besides itself. A new room needs a line here.
const std::map<std::string, Rooms>& visible()
{
    static const Rooms foundation{"error", "array", "tensor"};
    static const Rooms records{"error", "array", "recording"};
    static const Rooms below_trace{"error", "array", "tensor", "shape", "ops", "recording", "trace"};
    static const Rooms reference = with(below_trace, {"attention", "layers", "models"});
    static const Rooms traces = with(records, {"trace_io", "formula"});
    static const Rooms everything = with(reference, {"fast", "mpi", "trace_io", "formula", "what_if", "weights", "text",
                                                     "diff", "view", "graph", "train"});
    static const std::map<std::string, Rooms> rooms{
        {"error", {}},
        {"number_type", {"array"}},
        {"step_name", {}},
        {"memory", {"error", "array"}},
        {"budget", {"error"}},
        {"utf8", {}},
        {"array", {"error"}},
        {"tensor", {"error", "array"}},
        {"shape", foundation},
        {"ops", {"error", "array", "tensor", "shape"}},
        {"recording", {"error", "array"}},
        {"trace", with(foundation, {"recording"})},
        {"attention", below_trace},
        {"layers", with(below_trace, {"attention"})},
        {"models", with(below_trace, {"attention", "layers"})},
        {"fast", reference},
        {"mpi", with(reference, {"fast", "formula", "trace_io"})},
        {"trace_io", records},
        {"formula", records},
        {"what_if", traces},
        {"weights", with(reference, {"trace_io", "text"})},
        {"text", {"error", "array", "tensor", "ops", "trace_io"}},
        {"diff", with(traces, {"what_if"})},
        {"view", traces},
        {"graph", traces},
        {"train", with(reference, {"trace_io", "formula", "weights"})},
        {"lessons", everything},
        {"cli", with(everything, {"lessons"})},
    };
    return rooms;
}

/// What every room can see: the grammar of names, UTF-8, types of numbers. They see arrays and errors.
const Rooms small{"number_type", "step_name", "utf8", "memory", "budget"};

/// The rooms of the library proper, which opens no file and prints nothing.
const Rooms quiet{"error", "array", "tensor", "shape", "ops", "recording", "trace", "attention", "layers", "models"};
const Rooms noisy_headers{"iostream", "fstream", "filesystem", "cstdio", "print", "stdio.h"};

bool begins_with(const std::string& text, const std::string& beginning) { return text.rfind(beginning, 0) == 0; }

/// "include/attn/ops/matmul.hpp" is in ops, "src/trace.cpp" in trace, "lessons/…" in lessons.
std::string room_of(std::string path)
{
    if (begins_with(path, "lessons/"))
        return "lessons";
    for (const std::string folder : {"include/attn/", "src/"})
        if (begins_with(path, folder))
            path = path.substr(folder.size());
    return path.substr(0, path.find_first_of("/."));
}

/// What is in quotes or angle brackets, quotes and brackets included.
std::vector<std::string> includes_of(const std::string& text)
{
    std::vector<std::string> includes;
    std::istringstream lines(without_comments(text));
    for (std::string line; std::getline(lines, line);) {
        const std::size_t hash = line.find_first_not_of(" \t");
        if (hash == std::string::npos || line[hash] != '#')
            continue;
        const std::size_t word = line.find_first_not_of(" \t", hash + 1);
        if (word == std::string::npos || line.compare(word, 7, "include") != 0)
            continue;
        const std::size_t begin = line.find_first_of("\"<", word);
        const std::size_t end = line.find_last_of("\">");
        if (begin != std::string::npos && end > begin)
            includes.push_back(line.substr(begin, end - begin + 1));
    }
    return includes;
}

/// Why this file may not include that, or nothing.
std::string objection(const std::string& path, const std::string& include)
{
    const std::string name = include.substr(1, include.size() - 2);
    const std::string room = room_of(path);
    const auto may_see = visible().find(room);
    if (may_see == visible().end())
        return room + " has no line in the include rule";

    if (begins_with(name, "xtensor/") || begins_with(name, "xtl/"))
        return path == "include/attn/tensor.hpp" ? "" : "only attn/tensor.hpp includes xtensor";
    if (begins_with(name, "xtensor-blas/"))
        return path == "src/ops/matmul.cpp" ? "" : "only ops/matmul.cpp includes xtensor-blas";
    if (quiet.contains(room) && noisy_headers.contains(name))
        return room + " opens no file and prints nothing";
    if (include.front() == '<') {
        const bool is_standard = name.find('/') == std::string::npos && name.find('.') == std::string::npos;
        return quiet.contains(room) && !is_standard ? room + " stands on the standard library and xtensor only" : "";
    }

    std::string other = room;
    if (begins_with(name, "lessons/"))
        other = "lessons";
    else if (begins_with(name, "attn/"))
        other = room_of("include/" + name);
    else // what a room keeps to itself, and shows to those that can see it
        other = room_of((std::filesystem::path(path).parent_path() / name).lexically_normal().generic_string());
    return other == room || small.contains(other) || may_see->second.contains(other) ? ""
                                                                                     : room + " may not see " + other;
}

std::vector<std::string> objections(const SourceFile& file)
{
    std::vector<std::string> found;
    for (const std::string& include : includes_of(file.text))
        if (const std::string why = objection(file.path, include); !why.empty())
            found.push_back(file.path + " includes " + include + ": " + why);
    return found;
}

} // namespace

TEST_CASE("no file includes a header of a folder that its own folder may not depend on", "[source]")
{
    const std::vector<SourceFile> files = source_files({"include", "src", "lessons"});
    REQUIRE(files.size() > 20);
    for (const SourceFile& file : files)
        CHECK(objections(file) == std::vector<std::string>{});
}

TEST_CASE("the include rule sees every include, and no comment", "[source]")
{
    const std::string text = "#include \"a.hpp\"\n"
                             "  #  include <b> // \"c\"\n"
                             "// #include <d>\n"
                             "/* #include <e> */\n"
                             "#if __has_include(<f>)\n"
                             "#define include <g>\n"
                             "const char* text = \"#include <h>\";\n";
    CHECK(includes_of(text) == std::vector<std::string>{"\"a.hpp\"", "<b>"});
}

TEST_CASE("the include rule refuses a dependency in the wrong direction", "[source]")
{
    const auto allowed = [](const std::string& path, const std::string& include) {
        return objection(path, include).empty();
    };
    CHECK(allowed("src/array.cpp", "\"attn/array.hpp\""));
    CHECK(allowed("src/attention/weigh.cpp", "\"attn/ops/matmul.hpp\""));
    CHECK(allowed("src/trace_io/npz.cpp", "\"zip.hpp\""));
    CHECK(allowed("src/trace_io/zip.cpp", "<zip.h>"));
    CHECK(allowed("lessons/01_x/lesson.cpp", "\"../lesson.hpp\""));
    CHECK(allowed("src/ops/matmul.cpp", "<xtensor-blas/xblas.hpp>"));

    CHECK_FALSE(allowed("include/attn/tensor.hpp", "\"attn/shape.hpp\""));
    CHECK_FALSE(allowed("include/attn/shape.hpp", "\"attn/ops/matmul.hpp\""));
    CHECK_FALSE(allowed("src/ops/softmax.cpp", "\"attn/trace.hpp\""));
    CHECK_FALSE(allowed("src/ops/softmax.cpp", "\"attn/attention/weigh.hpp\""));
    CHECK_FALSE(allowed("src/ops/softmax.cpp", "\"../attention/weigh.hpp\""));
    CHECK_FALSE(allowed("include/attn/trace.hpp", "\"attn/shape.hpp\""));
    CHECK_FALSE(allowed("src/attention/weigh.cpp", "\"attn/trace_io/recorder.hpp\""));
    CHECK_FALSE(allowed("src/attention/weigh.cpp", "\"attn/formula/verify.hpp\""));
    CHECK_FALSE(allowed("src/attention/weigh.cpp", "\"attn/layers/linear.hpp\""));
    CHECK_FALSE(allowed("src/layers/encoder.cpp", "\"attn/models/llama.hpp\""));
    CHECK_FALSE(allowed("src/layers/encoder.cpp", "\"lessons/curriculum.hpp\""));
    CHECK_FALSE(allowed("src/formula/evaluate.cpp", "\"attn/ops/softmax.hpp\""));
    CHECK_FALSE(allowed("src/formula/evaluate.cpp", "<xtensor/xtensor.hpp>"));
    CHECK_FALSE(allowed("src/trace_io/npz.cpp", "\"attn/formula/verify.hpp\""));
    CHECK_FALSE(allowed("src/trace_io/npz.cpp", "\"attn/attention/weigh.hpp\""));
    CHECK_FALSE(allowed("lessons/01_x/lesson.cpp", "<xtensor/xview.hpp>"));
    CHECK_FALSE(allowed("lessons/01_x/lesson.cpp", "<xtensor-blas/xlinalg.hpp>"));
    CHECK_FALSE(allowed("src/ops/softmax.cpp", "<xtensor-blas/xblas.hpp>"));
    CHECK_FALSE(allowed("src/ops/matmul.cpp", "<iostream>"));
    CHECK_FALSE(allowed("src/ops/matmul.cpp", "<fmt/format.h>"));
    CHECK_FALSE(allowed("src/new_room/file.cpp", "<vector>"));
}
