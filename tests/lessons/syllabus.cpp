// The list of what the source documents say: every answer that it names is there.

#include "sources.hpp"
#include "test.hpp"

#include "lessons/curriculum.hpp"
#include "attn/files/npz.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

using namespace attn;
using namespace attn::files;

namespace {

struct Answer {
    std::string document, kind, says, lesson, step, test;
};

std::vector<std::string> split(const std::string& line)
{
    std::vector<std::string> cells(1);
    for (const char c : line)
        if (c == '\t')
            cells.emplace_back();
        else
            cells.back() += c;
    return cells;
}

std::vector<Answer> syllabus()
{
    std::istringstream text(attn::test::source_file("docs/syllabus.tsv").text);
    std::vector<Answer> answers;
    std::string line;
    std::getline(text, line);
    REQUIRE(split(line) == std::vector<std::string>{"document", "kind", "says", "lesson", "step", "test"});
    while (std::getline(text, line)) {
        const std::vector<std::string> cells = split(line);
        CAPTURE(line);
        REQUIRE(cells.size() == 6);
        answers.push_back({cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]});
    }
    return answers;
}

/// The steps of a lesson, which its golden has all of; a ~ behind a name marks a sample.
std::set<std::string> steps_of(const std::string& name_of_lesson)
{
    std::set<std::string> steps;
    for (const auto& [name, array] :
         read_npz(std::filesystem::path(ATTN_SOURCE_FOLDER) / "tests" / "golden" / (name_of_lesson + ".npz")))
        steps.insert(name.substr(0, name.find('~')));
    return steps;
}

} // namespace

TEST_CASE("every step and test that answers a source document exists", "[lessons][source]")
{
    const std::set<std::string> tests = attn::test::names_of_tests();
    std::map<std::string, std::set<std::string>> steps;
    for (const CurriculumEntry& entry : curriculum())
        steps[std::string(entry.topic)] = steps_of(std::string(entry.topic));

    for (const auto& [document, kind, says, lesson, step, test] : syllabus()) {
        CAPTURE(document, says, lesson, step, test);
        if (lesson.empty()) {
            CHECK((step.empty() && test.empty()));
            continue;
        }
        REQUIRE(steps.contains(lesson));
        CHECK((step.empty() || steps[lesson].contains(step)));
        CHECK(tests.contains(test));
    }
}

TEST_CASE("all five source documents are answered, and everything in them", "[lessons][source]")
{
    std::map<std::string, std::size_t> answered;
    std::size_t unanswered = 0;
    for (const Answer& answer : syllabus()) {
        ++answered[answer.document];
        unanswered += answer.lesson.empty() ? 1 : 0;
    }
    CHECK(answered.size() == 5);
    CHECK(unanswered == 0);
}
