// Each lesson's program, run as a user runs it.

#include "golden.hpp"
#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/formula/verify.hpp"
#include "lessons/curriculum.hpp"
#include "attn/trace_io/trace_file.hpp"

#include <fstream>

using namespace attn;

namespace {

std::vector<std::string> topics()
{
    std::vector<std::string> names;
    for (const CurriculumEntry& entry : curriculum())
        names.emplace_back(entry.topic);
    return names;
}

} // namespace

TEST_CASE("every step of every lesson is its golden's", "[lessons][golden]")
{
    for (const std::string& topic : topics()) {
        CAPTURE(topic);
        const TemporaryFolder folder;
        const Ended ended = run({"lesson_" + topic, "--trace", folder / "t.npz"});
        CHECK(ended.errors.empty());
        REQUIRE(ended.code == 0);
        CHECK(difference(read_trace(folder / "t.npz"), read_golden(topic)) == "");
    }
}

TEST_CASE("every step of every lesson follows from its formula", "[lessons][verify]")
{
    for (const std::string& topic : topics()) {
        CAPTURE(topic);
        const TemporaryFolder folder;
        REQUIRE(run({"lesson_" + topic, "--quiet", "--trace", folder / "t.npz"}).code == 0);
        const Verification verification = verify(read_trace(folder / "t.npz"));
        for (const StepCheck& check : verification.checks)
            CHECK(check.message == "");
        CHECK(verification.recomputed() > verification.inputs());
    }
}

TEST_CASE("two runs write the same bytes, whatever the time zone", "[lessons]")
{
    for (const std::string& topic : topics()) {
        const TemporaryFolder folder;
        REQUIRE(run({"lesson_" + topic, "--trace", folder / "a.npz"}, {"TZ=Asia/Tokyo"}).code == 0);
        REQUIRE(run({"lesson_" + topic, "--quiet", "--trace", folder / "b.npz"}, {"TZ=UTC"}).code == 0);
        CHECK(bytes_of(folder / "a.npz") == bytes_of(folder / "b.npz"));
        CHECK(folder.count() == 2);
    }
}

TEST_CASE("lesson 1 prints the numbers of its source", "[lessons]")
{
    const std::string output = run({"lesson_01_single_query"}).output;
    CHECK_THAT(output, ContainsSubstring("scores[m=3] = keys @ query\n        2  4  4\n"));
    CHECK_THAT(output, ContainsSubstring("0.06337894  0.46831053  0.46831053"));
    CHECK_THAT(output, ContainsSubstring("1.93662106  6.68310531  1.59506841"));
    CHECK_THAT(output, ContainsSubstring("2.00000000  7.00000000  1.50000000"));
}

TEST_CASE("lesson 2 prints all three outputs", "[lessons]")
{
    CHECK_THAT(run({"lesson_02_all_queries"}).output,
               ContainsSubstring("output[n=3, d_v=3] = weights @ values\n"
                                 "        1.93662106  6.68310531  1.59506841\n"
                                 "        1.99999397  7.96399160  0.05397641\n"
                                 "        1.99970461  7.75989225  0.35838929\n"));
}

TEST_CASE("a lesson's flags do what --help says", "[lessons]")
{
    const std::string lesson = "lesson_01_single_query";
    const Ended help = run({lesson, "--help"});
    CHECK(help.code == 0);
    for (const char* flag : {"--trace", "--input", "--precision", "--quiet", "--color", "--help"})
        CHECK_THAT(help.output, ContainsSubstring(flag));

    const Ended quiet = run({lesson, "--quiet"});
    CHECK(quiet.output + quiet.errors == "");
    CHECK_THAT(run({lesson, "--precision", "3"}).output, ContainsSubstring("0.063  0.468  0.468\n"));
    CHECK_THAT(run({lesson, "--color", "always"}).output, ContainsSubstring("\x1b["));
    CHECK(run({lesson}).output.find('\x1b') == std::string::npos);
    CHECK(run({lesson, "--color", "never"}).output.find('\x1b') == std::string::npos);
}

TEST_CASE("the lesson that is about time measures it where it is asked to", "[lessons]")
{
    const Ended measured = run({"lesson_20_restricted", "--measure"});
    CHECK(measured.code == 0);
    CHECK_THAT(measured.output, ContainsSubstring("milliseconds: full") && ContainsSubstring("16384"));
    CHECK_THAT(run({"lesson_20_restricted"}).output, !ContainsSubstring("milliseconds"));
    CHECK(run({"lesson_01_single_query", "--measure", "--quiet"}).code == 2);
}

TEST_CASE("wrong usage is one line, and exit code 2", "[lessons]")
{
    for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{{"--nonsense"},
                                                                                       {"stray"},
                                                                                       {"--trace"},
                                                                                       {"--precision", "99"},
                                                                                       {"--precision", "x"},
                                                                                       {"--color", "blue"}}) {
        std::vector<std::string> words{"lesson_01_single_query"};
        words.insert(words.end(), flags.begin(), flags.end());
        const Ended ended = run(words);
        CHECK(ended.code == 2);
        CHECK(lines_in(ended.errors) == 1);
        CHECK_THAT(ended.errors, ContainsSubstring("lesson_01_single_query: "));
        CHECK(ended.output == "");
    }
}

TEST_CASE("an exercise fails until it is done, and names the first thing to do", "[lessons]")
{
    for (const std::string& topic : topics()) {
        const Ended ended = run({"exercise_" + topic});
        CHECK(ended.code == 1);
        CHECK(lines_in(ended.errors) == 1);
        CHECK_THAT(ended.errors, ContainsSubstring("my_"));
    }
}

TEST_CASE("a lesson is in the list if and only if it has a folder, and its title is its page's", "[lessons]")
{
    const std::filesystem::path lessons = std::filesystem::path(ATTN_SOURCE_FOLDER) / "lessons";
    std::size_t folders = 0;
    for (const auto& entry : std::filesystem::directory_iterator(lessons))
        folders += entry.is_directory();
    CHECK(folders == topics().size());
    const std::string listed = run({"attn", "lessons"}).output;
    for (const CurriculumEntry& entry : curriculum()) {
        std::ifstream page(lessons / entry.topic / "lesson.md");
        std::string heading;
        std::getline(page, heading);
        heading[heading.find(": ") + 2] = static_cast<char>(std::toupper(heading[heading.find(": ") + 2]));
        CHECK_THAT(heading, ContainsSubstring(": " + std::string(entry.title)));
        CHECK_THAT(listed, ContainsSubstring(std::string(entry.topic)));
    }
}
