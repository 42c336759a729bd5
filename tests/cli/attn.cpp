// The attn program, run as a user runs it.

#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/trace_file.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

using namespace attn;
using namespace attn::files;

namespace {

/// The trace of lesson 2, changed, and what verify makes of it.
template <class Change>
Ended verified(const Change& change)
{
    const TemporaryFolder folder;
    REQUIRE(run({"lesson_02_all_queries", "--quiet", "--trace", folder / "t.npz"}).code == 0);
    Recording recording = read_trace(folder / "t.npz");
    change(recording.steps);
    write_trace(folder / "t.npz", recording);
    return run({"attn", "verify", folder / "t.npz"});
}

Step& named(std::vector<Step>& steps, std::string_view path)
{
    for (Step& step : steps)
        if (step.path == path)
            return step;
    throw std::out_of_range(std::string(path));
}

} // namespace

TEST_CASE("attn verify says how many steps it recomputed", "[cli]")
{
    std::size_t all = 0, inputs = 0;
    const Ended ended = verified([&](const std::vector<Step>& steps) {
        all = steps.size();
        inputs = static_cast<std::size_t>(std::ranges::count(steps, "", &Step::formula));
    });
    CHECK(ended.code == 0);
    REQUIRE(inputs > 0);
    CHECK_THAT(ended.output,
               ContainsSubstring(" " + std::to_string(all - inputs) + " steps recomputed from their formulas, " +
                                 std::to_string(inputs) + " inputs, 0 wrong"));
}

TEST_CASE("attn verify finds a change of 1e-6 in any step but an input, and names step and index", "[cli]")
{
    const TemporaryFolder folder;
    REQUIRE(run({"lesson_02_all_queries", "--quiet", "--trace", folder / "t.npz"}).code == 0);
    for (const Step& step : read_trace(folder / "t.npz").steps) {
        if (step.formula.empty())
            continue;
        CAPTURE(step.path);
        const Ended ended =
            verified([&](std::vector<Step>& steps) { named(steps, step.path).value.values[1] += 1e-6; });
        CHECK(ended.code == 1);
        CHECK_THAT(ended.output, ContainsSubstring(step.path + (step.value.rank() == 1 ? "[1] is " : "[0, 1] is ")));
    }
}

TEST_CASE("attn verify finds a changed input by what follows from it", "[cli]")
{
    const Ended ended = verified([](std::vector<Step>& steps) { named(steps, "inputs").value.values[0] += 1e-6; });
    CHECK(ended.code == 1);
    CHECK_THAT(ended.output, ContainsSubstring("queries[0, 0] is 1, but inputs @ query_weights gives"));
}

TEST_CASE("attn verify fails on a formula that can't be computed, in one line", "[cli]")
{
    const Ended ended = verified([](std::vector<Step>& steps) { named(steps, "output").formula = "weights @ vlaues"; });
    CHECK(ended.code == 1);
    CHECK_THAT(ended.output, ContainsSubstring("output can't be recomputed") &&
                                 ContainsSubstring("no earlier step is called vlaues"));
}

TEST_CASE("attn verify does not pass a trace that has nothing to recompute", "[cli]")
{
    const Ended ended = verified([](std::vector<Step>& steps) { steps.resize(1); });
    CHECK(ended.code == 2);
    CHECK_THAT(ended.errors, ContainsSubstring("nothing to recompute"));
}

TEST_CASE("attn verify on what is no trace is unusable input", "[cli]")
{
    const TemporaryFolder folder;
    std::ofstream(folder / "text.npz") << "hello";
    for (const std::filesystem::path& path : {folder / "text.npz", folder / "missing.npz", folder.path()}) {
        const Ended ended = run({"attn", "verify", path});
        CHECK(ended.code == 2);
        CHECK(lines_in(ended.errors) == 1);
        CHECK_THAT(ended.errors, ContainsSubstring(path.string()));
    }
}

TEST_CASE("what help says of a flag is in lines of at most 100 letters, each as full as can be", "[cli]")
{
    std::size_t lines = 0;
    for (const char* command : {"diff", "explain", "graph", "grad", "pitfalls", "run", "verify", "view"}) {
        std::istringstream help(run({"attn", command, "--help"}).output);
        for (std::string line, before; std::getline(help, line); before = line) {
            constexpr std::size_t column = 28;
            const std::size_t begin = line.find_first_not_of(' ');
            if (begin != column || before.size() <= column || before.substr(column - 2, 2) != "  ")
                continue; // not the second line of a text
            CAPTURE(command, line, before);
            CHECK(before.size() <= 100);
            CHECK(before.size() + 1 + line.substr(begin, line.find(' ', begin) - begin).size() > 100);
            ++lines;
        }
    }
    CHECK(lines > 10);
}

TEST_CASE("attn on wrong usage ends with 2, and on --help with 0", "[cli]")
{
    CHECK(run({"attn"}).code == 2);
    CHECK(run({"attn", "nonsense"}).code == 2);
    CHECK(run({"attn", "verify"}).code == 2);
    CHECK(run({"attn", "verify", "a", "b"}).code == 2);
    CHECK(run({"attn", "--help"}).code == 0);
    CHECK(run({"attn", "verify", "--help"}).code == 0);
    CHECK(run({"attn", "--version"}).code == 0);
    CHECK(run({"attn"}).errors == "attn: which command? (see attn --help)\n");
    CHECK(run({"attn", "verify"}).errors == "attn verify: TRACE.npz is required (see attn verify --help)\n");
    CHECK(run({"attn", "verify", ""}).errors ==
          "attn verify: TRACE.npz: the value is empty (see attn verify --help)\n");
}
