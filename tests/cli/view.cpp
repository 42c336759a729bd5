// attn view, run as a user runs it. What a browser makes of the page: tests/view/check_view.py.

#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/trace_file.hpp"

#include <csignal>
#include <cstdio>

#include <sys/wait.h>

namespace {

/// A folder with the trace of lesson 2, t.npz.
class ViewFolder : public TemporaryFolder {
public:
    ViewFolder() { REQUIRE(run({"lesson_02_all_queries", "--quiet", "--trace", *this / "t.npz"}).code == 0); }

    /// What the program says of the trace: its number of steps, as any reader of the file counts them.
    std::string steps() const
    {
        return std::to_string(attn::files::read_trace(*this / "t.npz").steps.size()) + " steps";
    }

    Ended view(const std::vector<std::string>& words) const
    {
        std::vector<std::string> command{"attn", "view"};
        command.insert(command.end(), words.begin(), words.end());
        return run(command);
    }
};

} // namespace

TEST_CASE("attn view writes one page and says how large it is", "[cli][view]")
{
    const ViewFolder folder;
    const Ended ended = folder.view({folder / "t.npz", "-o", folder / "p.html"});
    CHECK(ended.code == 0);
    CHECK(ended.errors == "");
    CHECK_THAT(ended.output, ContainsSubstring("p.html: " + folder.steps() + ", "));
    const std::string page = bytes_of(folder / "p.html");
    CHECK(page.starts_with("<!DOCTYPE html>\n"));
    CHECK(page.ends_with("</html>\n"));
    char size[32];
    std::snprintf(size, sizeof size, "%.1f MiB", static_cast<double>(page.size()) / 1048576);
    CHECK_THAT(ended.output, ContainsSubstring(size));
    CHECK_THAT(page, ContainsSubstring("\"title\":\"t.npz\""));
    CHECK(page.find(folder.path().string()) == std::string::npos);
}

TEST_CASE("attn view compares and labels", "[cli][view]")
{
    const ViewFolder folder;
    REQUIRE(run({"lesson_02_all_queries", "--quiet", "--round", "float32", "--trace", folder / "u.npz"}).code == 0);
    put_bytes(folder / "n.txt", "one\ntwo\nthree\n");
    put_bytes(folder / "m.txt", "ein\nzwei\ndrei\n");
    const Ended ended = folder.view({folder / "t.npz", "-o", folder / "p.html", "--diff", folder / "u.npz", "--tokens",
                                     folder / "n.txt", "--tokens-m", folder / "m.txt"});
    CHECK(ended.errors == "");
    const std::string page = bytes_of(folder / "p.html");
    CHECK_THAT(page,
               ContainsSubstring(R"("tokens":["one","two","three"],"tokens_m":["ein","zwei","drei"],"other":"u.npz")"));
}

TEST_CASE("attn view on wrong usage ends with 2, one line, and the old page", "[cli][view]")
{
    const ViewFolder folder;
    const std::string trace = folder / "t.npz", page = folder / "p.html";
    put_bytes(page, "old");
    put_bytes(folder / "text.npz", "hello");
    put_bytes(folder / "four.txt", "a\nb\nc\nd\n");
    put_bytes(folder / "latin.txt", "caf\xe9\nb\nc\n");
    put_bytes(folder / "empty.txt", "");
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{},
                                               {"-o", page},
                                               {trace, "-o", page, "--port", "8000"},
                                               {trace, "-o", page, "--no-browser"},
                                               {trace, "--port", "0"},
                                               {trace, "--port", "65536"},
                                               {trace, "--port", "http"},
                                               {folder / "missing.npz"},
                                               {folder / "text.npz", "--no-browser"},
                                               {trace, "--no-browser", "--tokens", folder / "four.txt"},
                                               {trace, "-o"},
                                               {trace, "-o", page, "stray"},
                                               {trace, "-o", page, "--nonsense"},
                                               {folder / "missing.npz", "-o", page},
                                               {folder / "text.npz", "-o", page},
                                               {trace, "-o", page, "--diff", folder / "missing.npz"},
                                               {trace, "-o", page, "--diff", folder / "text.npz"},
                                               {trace, "-o", page, "--tokens", folder / "four.txt"},
                                               {trace, "-o", page, "--tokens-m", folder / "four.txt"},
                                               {trace, "-o", page, "--tokens", folder / "latin.txt"},
                                               {trace, "-o", page, "--tokens", folder / "empty.txt"},
                                               {trace, "-o", page, "--tokens", folder / "missing.txt"},
                                               {trace, "-o", folder / "missing/p.html"},
                                               {trace, "-o", folder.path()}}) {
        const Ended ended = folder.view(words);
        CAPTURE(words, ended.errors);
        CHECK(ended.code == 2);
        CHECK(lines_in(ended.errors) == 1);
        CHECK(ended.output == "");
        CHECK(bytes_of(page) == "old");
    }
    CHECK(folder.count() == 6);
    CHECK_THAT(folder.view({trace, "-o", page, "--tokens", folder / "latin.txt"}).errors,
               ContainsSubstring("latin.txt: has bytes that are not UTF-8 in line 1"));
    for (const char* port : {"1", "65535"}) // are ports: what is wrong is the file
        CHECK_THAT(folder.view({folder / "missing.npz", "--port", port}).errors, ContainsSubstring("missing.npz"));
}

TEST_CASE("attn view without -o says where it serves, until Ctrl-C or SIGTERM ends it with 0", "[cli][view]")
{
    const ViewFolder folder;
    for (const int signal : {SIGINT, SIGTERM}) {
        const std::string command =
            "echo $$; exec '" ATTN_BIN_FOLDER "/attn' view '" + (folder / "t.npz").string() + "' --no-browser";
        FILE* program = ::popen(command.c_str(), "r");
        REQUIRE(program != nullptr);
        char process[32], line[4096];
        REQUIRE(std::fgets(process, sizeof process, program) != nullptr);
        REQUIRE(std::fgets(line, sizeof line, program) != nullptr);
        CHECK_THAT(std::string(line), ContainsSubstring("t.npz: " + folder.steps() + " at http://127.0.0.1:"));
        ::kill(static_cast<pid_t>(std::stol(process)), signal);
        const int status = ::pclose(program);
        CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0)); // in parentheses: macros of many casts
    }
}

TEST_CASE("attn view doesn't replace what it reads", "[cli][view]")
{
    const ViewFolder folder;
    const std::string before = bytes_of(folder / "t.npz");
    put_bytes(folder / "tokens.txt", "a\nb\nc\n");
    std::filesystem::create_hard_link(folder / "t.npz", folder / "same.npz");
    for (const char* page : {"t.npz", "same.npz", "tokens.txt"}) {
        const Ended ended = folder.view({folder / "t.npz", "-o", folder / page, "--tokens", folder / "tokens.txt"});
        CHECK(ended.code == 2);
        CHECK_THAT(ended.errors, ContainsSubstring("-o would replace"));
    }
    CHECK(bytes_of(folder / "t.npz") == before);
    CHECK(bytes_of(folder / "tokens.txt") == "a\nb\nc\n");
}
