// attn graph, run as a user runs it.

#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/trace_file.hpp"

#include <chrono>
#include <csignal>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace attn;
using namespace attn::files;

namespace {

/// A folder with a small trace, t.npz.
class TraceFolder : public TemporaryFolder {
public:
    TraceFolder()
    {
        const auto step = [](std::string path, std::string formula) {
            return Step{std::move(path), std::move(formula), {"n"}, "", {}, {{2}, {1, 2}}};
        };
        write_trace(*this / "t.npz", {{step("x", ""), step("norm.mean", "x / 2"), step("norm.y", "x - mean"),
                                       step("output", "norm.y + x")},
                                      {}});
    }

    Ended graph(const std::vector<std::string>& words, const std::vector<std::string>& environment = {}) const
    {
        std::vector<std::string> command{"attn", "graph", *this / "t.npz"};
        command.insert(command.end(), words.begin(), words.end());
        return run(command, environment);
    }
};

/// Whether a condition holds within ten seconds.
template <class Condition>
bool comes_true(const Condition& condition)
{
    const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > last)
            return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
}

/// A process that nobody has waited for yet has ended, too.
bool has_ended(pid_t process)
{
    const std::filesystem::path stat = "/proc/" + std::to_string(process) + "/stat";
    return ::kill(process, 0) != 0 || bytes_of(stat).find(") Z ") != std::string::npos;
}

} // namespace

TEST_CASE("attn graph writes DOT on standard output", "[cli][graph]")
{
    const TraceFolder folder;
    const Ended ended = folder.graph({});
    CHECK(ended.code == 0);
    CHECK(ended.errors == "");
    CHECK(ended.output.rfind("// 4 boxes and 5 edges; nothing is folded\ndigraph \"Dataflow of t.npz\" {\n", 0) == 0);
    CHECK_THAT(ended.output, ContainsSubstring("  \"x\" -> \"output\"\n"));
    CHECK((folder.graph({"--format", "dot"}).output == ended.output));
}

TEST_CASE("attn graph writes a file in the format of its ending, and says what is folded", "[cli][graph]")
{
    const TraceFolder folder;
    const Ended svg = folder.graph({"-o", folder / "g.svg", "--depth", "0"});
    CHECK(svg.code == 0);
    CHECK(svg.errors == "");
    CHECK(svg.output == (folder / "g.svg").string() + ": 3 boxes and 3 edges; folded at depth 0: norm (2 steps)\n");
    CHECK(bytes_of(folder / "g.svg").rfind("<svg ", 0) == 0);
    CHECK(folder.graph({"-o", folder / "g.dot"}).code == 0);
    CHECK((bytes_of(folder / "g.dot") == folder.graph({}).output));
    CHECK(folder.graph({"-o", folder / "g.txt", "--format", "dot"}).code == 0);
    CHECK(folder.graph({"--format", "svg"}).output.rfind("<svg ", 0) == 0);
}

TEST_CASE("attn graph's flags do what --help says", "[cli][graph]")
{
    const TraceFolder folder;
    CHECK_THAT(folder.graph({"--scope", "norm"}).output, ContainsSubstring("digraph \"Dataflow of norm in t.npz\""));
    CHECK(folder.graph({"--scope", "norm"}).output.find("\"output\"") == std::string::npos);
    CHECK_THAT(folder.graph({"--to", "norm.mean"}).output, ContainsSubstring("// 2 boxes and 1 edge;"));
    CHECK_THAT(folder.graph({"--to", "norm.mean", "--to", "output"}).output, ContainsSubstring("// 4 boxes"));
    CHECK_THAT(folder.graph({"--formulas"}).output, ContainsSubstring("\\n= x - mean\""));
    CHECK_THAT(folder.graph({"--title", "One \"norm\""}).output, ContainsSubstring("digraph \"One &quot;norm&quot;\""));
    const Ended help = run({"attn", "graph", "--help"});
    CHECK(help.code == 0);
    for (const char* flag : {"TRACE", "--scope", "--to", "--depth", "--formulas", "--output", "--format", "--title"})
        CHECK_THAT(help.output, ContainsSubstring(flag));
}

TEST_CASE("attn graph on wrong usage ends with 2, one line, and the old picture", "[cli][graph]")
{
    const TraceFolder folder;
    const std::string picture = folder / "g.svg";
    put_bytes(picture, "old");
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"--scope", "nrm"},
                                               {"--scope", "output"},
                                               {"--to", "ouput"},
                                               {"--depth", "-1"},
                                               {"--depth", "101"},
                                               {"--format", "png"},
                                               {"-o", folder / "g.png"},
                                               {"-o", folder / "g"},
                                               {"-o", folder / "missing/g.svg"},
                                               {"-o", picture, "stray"},
                                               {"-o", picture, "--scope", "nrm"},
                                               {"--nonsense"}}) {
        const Ended ended = folder.graph(words);
        CAPTURE(words, ended.errors);
        CHECK(ended.code == 2);
        CHECK(lines_in(ended.errors) == 1);
        CHECK(ended.output == "");
        CHECK(bytes_of(picture) == "old");
    }
    CHECK_THAT(folder.graph({"--scope", "nrm"}).errors,
               ContainsSubstring("t.npz: no scope is called nrm; did you mean norm?"));
    CHECK(folder.count() == 2);
}

TEST_CASE("attn graph says what to install where there is no Graphviz, and needs none for DOT", "[cli][graph]")
{
    const TraceFolder folder;
    const std::vector<std::string> nowhere{"PATH=/nonexistent"};
    const Ended ended = folder.graph({"-o", folder / "g.svg"}, nowhere);
    CHECK(ended.code == 2);
    CHECK(lines_in(ended.errors) == 1);
    CHECK_THAT(ended.errors, ContainsSubstring("install graphviz") && ContainsSubstring("--format dot"));
    CHECK(folder.count() == 1);
    CHECK(folder.graph({"-o", folder / "g.dot"}, nowhere).code == 0);
}

TEST_CASE("attn graph doesn't replace what it reads, and refuses what is no trace", "[cli][graph]")
{
    const TraceFolder folder;
    std::filesystem::create_hard_link(folder / "t.npz", folder / "same.svg");
    const Ended ended = folder.graph({"-o", folder / "same.svg"});
    CHECK(ended.code == 2);
    CHECK_THAT(ended.errors, ContainsSubstring("-o would replace"));
    put_bytes(folder / "text.npz", "hello");
    for (const char* name : {"text.npz", "missing.npz"}) {
        const Ended refused = run({"attn", "graph", folder / name});
        CHECK(refused.code == 2);
        CHECK(lines_in(refused.errors) == 1);
        CHECK_THAT(refused.errors, ContainsSubstring((folder / name).string()));
    }
}

TEST_CASE("attn graph that is ended by a signal ends Graphviz, too", "[cli][graph]")
{
    const TraceFolder folder;
    put_bytes(folder / "dot", "#!/bin/sh\necho $$ >'" + (folder / "part").string() + "'\nmv '" +
                                  (folder / "part").string() + "' '" + (folder / "process").string() +
                                  "'\nexec sleep 60\n");
    std::filesystem::permissions(folder / "dot", std::filesystem::perms::owner_all);
    const std::string program = ATTN_BIN_FOLDER "/attn", trace = folder / "t.npz", picture = folder / "g.svg",
                      path = "PATH=" + folder.path().string() + ":/usr/bin:/bin";
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGKILL}) {
        CAPTURE(signal);
        const pid_t attn = ::fork();
        if (attn == 0) {
            ::execl("/usr/bin/env", "env", path.c_str(), program.c_str(), "graph", trace.c_str(), "-o", picture.c_str(),
                    static_cast<char*>(nullptr));
            ::_exit(127);
        }
        CHECK(comes_true([&] { return std::filesystem::exists(folder / "process"); }));
        ::kill(attn, signal); // and not the group, as a terminal would
        int status = 0;
        ::waitpid(attn, &status, 0);
        CHECK((WIFSIGNALED(status) && WTERMSIG(status) == signal));
        const auto drawing = static_cast<pid_t>(std::stol(bytes_of(folder / "process")));
        std::filesystem::remove(folder / "process");
        CHECK(comes_true([&] { return has_ended(drawing); }));
        ::kill(drawing, SIGKILL);
    }
}
