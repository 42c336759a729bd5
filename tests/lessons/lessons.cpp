// Each lesson's program, run as a user runs it.

#include "golden.hpp"
#include "lesson_run.hpp"
#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/trace_file.hpp"
#include "attn/formula/verify.hpp"
#include "lessons/curriculum.hpp"

#include <fstream>

using namespace attn;
using namespace attn::files;
using namespace attn::formula;

TEST_CASE("every step of every lesson equals its golden, and follows from its formula",
          "[lessons][golden][verify][slow]")
{
    for (const std::string& topic : lesson_topics()) {
        CAPTURE(topic);
        const Recording& recording = lesson_recording(topic);
        CHECK(difference(of_one_process(recording), read_golden(topic)) == "");
        const Verification verification = verify(recording);
        for (const StepCheck& check : verification.checks)
            CHECK(check.message == "");
        CHECK(verification.recomputed() > verification.inputs());
    }
}

TEST_CASE("two runs write the same bytes, whatever is printed and whatever the time zone", "[lessons][slow]")
{
    for (const std::string& topic : lesson_topics()) {
        if (topic == "11_encoder_stack")
            continue; // it is at the paper's size, and writes with the same code
        CAPTURE(topic);
        const TemporaryFolder folder;
        REQUIRE(run(lesson_command(topic, {"--quiet", "--trace", folder / "t.npz"}), {"TZ=UTC"}).code == 0);
        CHECK(bytes_of(folder / "t.npz") == bytes_of(lesson_run(topic).trace));
        CHECK(folder.count() == 1);
    }
}

TEST_CASE("a lesson prints its own steps and a line per scope, in few lines, and every step with --all",
          "[lessons][slow]")
{
    std::size_t lines = 0;
    for (const std::string& topic : lesson_topics()) {
        CAPTURE(topic);
        const std::string all = lesson_run(topic).output;
        for (const Step& step : lesson_recording(topic).steps)
            REQUIRE_THAT(all, ContainsSubstring("    " + step.path));
        if (topic == "11_encoder_stack") {
            lines += 65; // what it prints: at the paper's size it runs once for all tests, with --all
            continue;
        }
        const std::string few = run(lesson_command(topic)).output;
        CHECK(lines_in(few) < 320);
        CHECK(lines_in(few) <= lines_in(all));
        lines += lines_in(few);
    }
    CHECK(lines < 150 * lesson_topics().size());

    const std::string layer = run({"lesson_10_encoder_layer"}).output;
    CHECK_THAT(layer, ContainsSubstring("    residual1[n=3, d_model=4] = x + self_attn.output\n"));
    CHECK_THAT(layer, ContainsSubstring(" steps → output[n=3, d_model=4]\n    residual1["));
    CHECK_THAT(layer, !ContainsSubstring("self_attn.query["));
}

TEST_CASE("a lesson's --summary is one line for a script", "[lessons]")
{
    const Ended ended = run({"lesson_01_single_query", "--summary"});
    CHECK(ended.code == 0);
    CHECK(ended.output == "18 steps, 3 checks, all held\n");
    CHECK_THAT(run({"lesson_06_multi_head", "--summary", "--pitfall", "softmax_axis"}).output,
               ContainsSubstring(" no longer so\n"));
}

TEST_CASE("lesson 1 prints the numbers of its source", "[lessons]")
{
    const std::string output = run({"lesson_01_single_query"}).output;
    CHECK_THAT(output, ContainsSubstring("scores[m=3] = keys @ query\n        2  4  4\n"));
    CHECK_THAT(output, ContainsSubstring("0.0634  0.4683  0.4683"));
    CHECK_THAT(output, ContainsSubstring("1.9366  6.6831  1.5951"));
    CHECK_THAT(output, ContainsSubstring("2.0000  7.0000  1.5000"));
}

TEST_CASE("lesson 2 prints all three outputs", "[lessons]")
{
    CHECK_THAT(run({"lesson_02_all_queries", "--precision", "8"}).output,
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
    for (const char* flag : {"--trace", "--input", "--all", "--precision", "--quiet", "--summary", "--color", "--help"})
        CHECK_THAT(help.output, ContainsSubstring(flag));

    const Ended quiet = run({lesson, "--quiet"});
    CHECK(quiet.output + quiet.errors == "");
    CHECK_THAT(run({lesson, "--precision", "3"}).output, ContainsSubstring("0.063  0.468  0.468\n"));
    CHECK_THAT(run({lesson, "--color", "always"}).output, ContainsSubstring("\x1b["));
    CHECK(run({lesson}).output.find('\x1b') == std::string::npos);
    CHECK(run({lesson, "--color", "never"}).output.find('\x1b') == std::string::npos);
}

TEST_CASE("lesson 20 measures time with --measure only, and lesson 1 has no such flag", "[lessons]")
{
    const Ended measured = run({"lesson_20_restricted", "--measure"});
    CHECK(measured.code == 0);
    CHECK_THAT(measured.output, ContainsSubstring("milliseconds: full") && ContainsSubstring("16384"));
    CHECK_THAT(run({"lesson_20_restricted"}).output, !ContainsSubstring("milliseconds"));
    CHECK(run({"lesson_01_single_query", "--measure", "--quiet"}).code == 2);
}

TEST_CASE("lesson 18 measures with --measure only: memory grows with n squared in the reference, with n in the kernel",
          "[lessons][fast]")
{
    const std::string lesson = "lesson_18_flash_attention";
    const TemporaryFolder folder;
    const Ended measured = run({lesson, "--measure", "--up-to", "2048", "--trace", folder / "t.npz"});
    CHECK(measured.code == 0);
    CHECK_THAT(measured.output, ContainsSubstring("MiB: reference"));
    const Recording recording = read_trace(folder / "t.npz");
    const auto numbers = [&](const std::string& path) {
        return std::ranges::find(recording.steps, path, &Step::path)->value.values;
    };
    const std::vector<double> reference = numbers("measured.reference_mib"), fast = numbers("measured.fast_mib");
    REQUIRE(numbers("measured.n") == std::vector<double>{256, 512, 1024, 2048});
    CHECK(reference[3] / reference[1] > 15); // 16 but for the transposed keys, which grow with n
    CHECK(reference[3] / reference[1] < 17);
    CHECK(fast[3] / fast[1] < 5);
    CHECK_THAT(run({lesson}).output, !ContainsSubstring("MiB: reference"));
    for (const auto& flags : {std::vector<std::string>{"--up-to", "512"}, {"--measure", "--up-to", "255"}}) {
        std::vector<std::string> words{lesson};
        words.insert(words.end(), flags.begin(), flags.end());
        const Ended refused = run(words);
        CHECK(refused.code == 2);
        CHECK_THAT(refused.errors, ContainsSubstring("--up-to"));
    }
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

TEST_CASE("an exercise fails until it is written, and says what is expected, what it found and where to write it",
          "[lessons][exercises]")
{
    for (const std::string& topic : lesson_topics()) {
        const Ended ended = run({"exercise_" + topic});
        CHECK(ended.code == 1);
        for (const std::string& part : {std::string("my_"), std::string("is not written yet"), std::string("expected"),
                                        std::string("yours gave"), "Write it in lessons/" + topic + "/exercise.cpp"})
            CHECK_THAT(ended.errors, ContainsSubstring(part));
    }
}

TEST_CASE("a lesson is in the list if and only if it has a folder, and its title is its page's", "[lessons]")
{
    const std::filesystem::path lessons = std::filesystem::path(ATTN_SOURCE_FOLDER) / "lessons";
    std::size_t folders = 0;
    for (const auto& entry : std::filesystem::directory_iterator(lessons))
        folders += entry.is_directory() &&
                   std::isdigit(static_cast<unsigned char>(entry.path().filename().string().front())) != 0;
    CHECK(folders == curriculum().size());
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
