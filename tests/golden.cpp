#include "golden.hpp"

#include "attn/trace_io/npz.hpp"

#include "test.hpp"

#include <cmath>
#include <limits>

using namespace attn;

namespace {

std::string exactly(double number)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", number);
    return text;
}

bool agrees(double found, double expected)
{
    if (std::isnan(expected))
        return std::isnan(found);
    if (std::isinf(expected) || std::isinf(found))
        return found == expected;
    return std::abs(found - expected) <= 1e-12 * std::max(1.0, std::abs(expected));
}

std::string difference(const Step& step, const std::string& name, const Array& expected)
{
    if (step.path != name)
        return "found the step " + step.path + ", expected " + name;
    if (step.value.shape != expected.shape)
        return name + " has the shape " + to_string(step.value.shape) + ", expected " + to_string(expected.shape);
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (!agrees(step.value.values[i], expected.values[i]))
            return name + " at " + to_string(index_at(i, expected.shape)) + " is " + exactly(step.value.values[i]) +
                   ", expected " + exactly(expected.values[i]);
    return "";
}

} // namespace

Golden read_golden(const std::string& name)
{
    return read_npz_members(std::filesystem::path(ATTN_SOURCE_FOLDER) / "tests" / "golden" / (name + ".npz"), {})
        .arrays;
}

std::string difference(const std::vector<Step>& steps, const Golden& golden)
{
    for (std::size_t i = 0; i < std::max(steps.size(), golden.size()); ++i) {
        if (i == steps.size())
            return "the step " + golden[i].first + " is missing";
        if (i == golden.size())
            return "the step " + steps[i].path + " is extra";
        if (const std::string found = difference(steps[i], golden[i].first, golden[i].second); !found.empty())
            return found;
    }
    return "";
}

// The comparison itself can fail: each kind of difference is one.

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Step step(const std::string& path, const Array& value) { return {path, "", {}, "", {}, value}; }

const Golden golden{{"a", {{2}, {1, -infinity}}}, {"b", {{}, {NAN}}}};
const Step a = step("a", {{2}, {1, -infinity}}), b = step("b", {{}, {NAN}});

} // namespace

TEST_CASE("steps that are the golden's agree with it", "[golden]")
{
    CHECK(difference({a, b}, golden).empty());
    CHECK(difference({step("a", {{2}, {1 + 1e-13, -infinity}}), b}, golden).empty());
}

TEST_CASE("a golden finds a step that is missing, extra or out of order", "[golden]")
{
    CHECK(difference({a}, golden) == "the step b is missing");
    CHECK(difference({}, golden) == "the step a is missing");
    CHECK(difference({a, b, step("c", {{}, {0}})}, golden) == "the step c is extra");
    CHECK(difference({b, a}, golden) == "found the step b, expected a");
}

TEST_CASE("a golden finds another number, shape, infinity or NaN", "[golden]")
{
    CHECK(difference({step("a", {{2}, {1 + 1e-11, -infinity}}), b}, golden) ==
          "a at (0,) is 1.00000000001, expected 1");
    CHECK(difference({step("a", {{1, 2}, {1, -infinity}}), b}, golden) == "a has the shape (1, 2), expected (2,)");
    CHECK_FALSE(difference({step("a", {{2}, {1, infinity}}), b}, golden).empty());
    CHECK_FALSE(difference({step("a", {{2}, {1, -1e308}}), b}, golden).empty());
    CHECK_FALSE(difference({step("a", {{2}, {NAN, -infinity}}), b}, golden).empty());
    CHECK_FALSE(difference({step("a", {{2}, {infinity, -infinity}}), b}, golden).empty());
    CHECK_FALSE(difference({a, step("b", {{}, {0}})}, golden).empty());
}
