#include "commands.hpp"

#include "lessons/curriculum.hpp"

#include "attn/cli/print_escaped.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attn::cli {
namespace {

int list_lessons()
{
    std::string_view part;
    for (const CurriculumEntry& lesson : curriculum()) {
        if (part != lesson.part)
            print("{}\n\n", lesson.part);
        part = lesson.part;
        print("{:<22}  {}\n{:<22}  {}\n", lesson.topic, lesson.title, "", lesson.idea);
        if (!lesson.needs.empty())
            print("{:<22}  builds on lesson {}\n", "", fmt::format("{}", fmt::join(lesson.needs, ", ")));
        if (!lesson.built_with.empty())
            print("{:<22}  is built where there is {}\n", "", lesson.built_with);
        print("\n");
    }
    print("Run one: lesson_{} --help\n", curriculum().front().topic);
    return 0;
}

} // namespace

Command lessons_command()
{
    return {.name = "lessons", .summary = "list the lessons, and which builds on which", .run = list_lessons};
}

} // namespace attn::cli
