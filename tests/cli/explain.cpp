// attn explain, run as a user runs it.

#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include <fstream>

namespace {

/// attn explain on the trace of lesson 2.
Ended explained(const std::vector<std::string>& words)
{
    const TemporaryFolder folder;
    REQUIRE(run({"lesson_02_all_queries", "--quiet", "--trace", folder / "t.npz"}).code == 0);
    std::vector<std::string> command{"attn", "explain", folder / "t.npz"};
    command.insert(command.end(), words.begin(), words.end());
    return run(command);
}

} // namespace

TEST_CASE("attn explain prints the arithmetic of one number", "[cli][explain]")
{
    const Ended ended = explained({"scores[0,1]"});
    CHECK(ended.code == 0);
    CHECK(ended.errors == "");
    CHECK(ended.output == "scores[0,1] = queries @ keys.T\n"
                          "  = queries[0,0]*keys[1,0] + queries[0,1]*keys[1,1] + queries[0,2]*keys[1,2]\n"
                          "  = 1*4 + 0*4 + 2*0\n"
                          "  = 4\n");
}

TEST_CASE("attn explain prints a row with one line per number", "[cli][explain]")
{
    const Ended ended = explained({"scores[0]"});
    CHECK(ended.code == 0);
    CHECK(lines_in(ended.output) == 4);
    CHECK_THAT(ended.output, ContainsSubstring("  scores[0,1] = 1*4 + 0*4 + 2*0 = 4\n"));
}

TEST_CASE("attn explain's flags do what --help says", "[cli][explain]")
{
    CHECK_THAT(explained({"scores[0,1]", "--terms", "1"}).output, ContainsSubstring("= 1*4 + 0\n"));
    CHECK_THAT(explained({"scores[0,1]", "--depth", "1"}).output,
               ContainsSubstring("\n  where keys[1,0] = inputs @ key_weights\n"));
    CHECK_THAT(explained({"weights[0,0]", "--precision", "3"}).output, ContainsSubstring("  = 0.0634\n"));
    const Ended help = run({"attn", "explain", "--help"});
    CHECK(help.code == 0);
    for (const char* flag : {"TRACE", "STEP", "--terms", "--depth", "--precision"})
        CHECK_THAT(help.output, ContainsSubstring(flag));
}

TEST_CASE("attn explain on wrong usage ends with 2 and one line", "[cli][explain]")
{
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{},
                                               {"scors[0,1]"},
                                               {"scores[0,3]"},
                                               {"scores[0,1", "--terms", "3"},
                                               {"scores[0,1]", "--terms", "0"},
                                               {"scores[0,1]", "--terms", "-1"},
                                               {"scores[0,1]", "--depth", "x"},
                                               {"scores[0,1]", "--precision", "0"},
                                               {"scores[0,1]", "--precision", "18"},
                                               {"scores[0,1]", "--nonsense"},
                                               {"scores[0,1]", "stray"}}) {
        const Ended ended = explained(words);
        CAPTURE(words);
        CHECK(ended.code == 2);
        CHECK(lines_in(ended.errors) == 1);
        CHECK(ended.output == "");
    }
    CHECK_THAT(explained({"scors[0,1]"}).errors, ContainsSubstring("did you mean scores"));
    CHECK_THAT(explained({"scores[0,3]"}).errors, ContainsSubstring("t.npz: scores[0,3] is no cell of scores"));
}

TEST_CASE("attn explain on what is no trace is unusable input", "[cli][explain]")
{
    const TemporaryFolder folder;
    std::ofstream(folder / "text.npz") << "hello";
    for (const std::filesystem::path& path : {folder / "text.npz", folder / "missing.npz"}) {
        const Ended ended = run({"attn", "explain", path, "x"});
        CHECK(ended.code == 2);
        CHECK(lines_in(ended.errors) == 1);
        CHECK_THAT(ended.errors, ContainsSubstring(path.string()));
    }
}
