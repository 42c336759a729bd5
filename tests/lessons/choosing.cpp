// Lesson 30: what it refuses of a reader's numbers, and that it can be followed with mistakes and rounding.

#include "program.hpp"
#include "temporary_folder.hpp"
#include "test.hpp"

#include "attn/files/npz.hpp"

using namespace attn;
using namespace attn::files;

namespace {

const std::string choosing_lesson = "lesson_30_choosing";

/// Runs the lesson with some of its inputs changed.
Ended choosing(const std::vector<std::pair<std::string, Array>>& changed)
{
    const TemporaryFolder folder;
    Npz content;
    content.arrays = {{"ids", {{7}, {2, 19, 15, 24, 32, 1, 10}, ElementType::integer}},
                      {"temperature", {{1}, {2}}},
                      {"top_k", {{1}, {4}, ElementType::integer}},
                      {"top_p", {{1}, {0.8}}},
                      {"min_p", {{1}, {0.2}}},
                      {"guesses", {{1}, {4}, ElementType::integer}},
                      {"seed", {{1}, {35}, ElementType::integer}}};
    for (const auto& [name, array] : changed)
        for (auto& [given, value] : content.arrays)
            if (given == name)
                value = array;
    write_npz(folder / "i.npz", content);
    return run({choosing_lesson, "--quiet", "--input", folder / "i.npz"});
}

Array whole(double number) { return {{1}, {number}, ElementType::integer}; }
Array real(double number) { return {{1}, {number}}; }

} // namespace

TEST_CASE("lesson 30 refuses in one line what cuts and guesses can't be", "[lessons][choosing]")
{
    const auto refused = [](const std::string& name, const Array& array, const std::string& why) {
        CAPTURE(name, why);
        const Ended ended = choosing({{name, array}});
        CHECK(ended.code == 2);
        CHECK_THAT(ended.errors, ContainsSubstring(why));
    };
    refused("temperature", real(0), "temperature: expected a number above 0, found 0");
    refused("top_k", whole(0), "top_k: expected 1 to 66, the words of the model, found 0");
    refused("top_k", whole(67), "top_k: expected 1 to 66");
    refused("top_p", real(0), "top_p: expected more than 0 and at most 1, found 0");
    refused("top_p", real(1.5), "top_p: expected more than 0 and at most 1, found 1.5");
    refused("min_p", real(-0.5), "min_p: expected 0 to 1, found -0.5");
    refused("guesses", whole(0), "guesses: expected 1 to 49");
    refused("guesses", whole(50), "guesses: expected 1 to 49");
    refused("ids", {{1}, {66}, ElementType::integer}, "ids[0] is 66");
    refused("ids", {{56}, std::vector<double>(56, 1), ElementType::integer}, "ids: expected at most 55 words");
}

TEST_CASE("lesson 30 bears extreme numbers that can be meant", "[lessons][choosing]")
{
    for (const auto& [name, array] : std::vector<std::pair<std::string, Array>>{{"temperature", real(1e-300)},
                                                                                {"temperature", real(1e300)},
                                                                                {"top_k", whole(66)},
                                                                                {"top_p", real(1)},
                                                                                {"min_p", real(1)},
                                                                                {"guesses", whole(49)},
                                                                                {"seed", whole(-5)},
                                                                                {"ids", whole(0)}}) {
        CAPTURE(name);
        const Ended ended = choosing({{name, array}});
        CHECK(ended.code == 0);
        CHECK(ended.errors == "");
    }
}

TEST_CASE("lesson 30 can be followed with its mistakes, and rounded", "[lessons][choosing]")
{
    const std::string right = run({choosing_lesson}).output;
    for (const char* mistake : {"nucleus_without_crossing", "nucleus_before_temperature", "nucleus_not_normalized",
                                "speculation_from_target", "speculation_sides_swapped", "speculation_excess_signed"}) {
        CAPTURE(mistake);
        const Ended ended = run({choosing_lesson, "--pitfall", mistake});
        CHECK(ended.code == 0);
        CHECK(ended.errors == "");
        CHECK(ended.output != right);
    }
    CHECK(run({choosing_lesson, "--round", "bfloat16"}).code == 0);
}
