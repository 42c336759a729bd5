#include "golden.hpp"

#include "attn/formula/scope.hpp"

#include "npz_members.hpp"
#include "test.hpp"

#include <cmath>

using namespace attn;
using namespace attn::formula;

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

/// What a golden keeps of a large array, under its name and a ~: rank, sizes, mean, standard deviation, least, greatest,
/// and every so many-th number.
Array sample(const Array& array)
{
    constexpr std::size_t numbers = 32;
    const auto count = static_cast<double>(array.size());
    double mean = 0, variance = 0;
    for (const double value : array.values)
        mean += value / count;
    for (const double value : array.values)
        variance += (value - mean) * (value - mean) / count;
    const auto [least, greatest] = std::ranges::minmax(array.values);

    Array kept{{}, {static_cast<double>(array.rank())}};
    for (const std::size_t size : array.shape)
        kept.values.push_back(static_cast<double>(size));
    kept.values.insert(kept.values.end(), {mean, std::sqrt(variance), least, greatest});
    for (std::size_t i = 0; i < array.size(); i += (array.size() + numbers - 1) / numbers)
        kept.values.push_back(array.values[i]);
    kept.shape = {kept.values.size()};
    return kept;
}

std::string difference(const std::string& path, const Array& found, const std::string& name, const Array& expected)
{
    if (path != name)
        return "found the step " + path + ", expected " + name;
    if (found.shape != expected.shape)
        return name + " has the shape " + to_string(found.shape) + ", expected " + to_string(expected.shape);
    for (std::size_t i = 0; i < expected.size(); ++i)
        if (!agrees(found.values[i], expected.values[i]))
            return name + " at " + to_string(index_at(i, expected.shape)) + " is " + exactly(found.values[i]) +
                   ", expected " + exactly(expected.values[i]);
    return "";
}

std::string difference(const Step& step, const std::string& name, const Array& expected)
{
    return name.ends_with('~') ? difference(step.path + '~', sample(step.value), name, expected)
                               : difference(step.path, step.value, name, expected);
}

} // namespace

Golden read_golden(const std::string& name)
{
    const std::filesystem::path file = std::filesystem::path(ATTN_SOURCE_FOLDER) / "tests/golden" / (name + ".npz");
    if (!exists(file))
        throw std::runtime_error("tests/golden/" + name + ".npz is missing: script/regenerate-goldens " + name +
                                 " makes it");
    return read_npz_members(file, {}).arrays;
}

std::string difference(const Recording& recording, const Golden& golden)
{
    const StepNames names(recording);
    std::size_t next = 0, aliases = 0; // that were found so far
    for (const auto& [name, expected] : golden) {
        const std::string path = name.ends_with('~') ? name.substr(0, name.size() - 1) : name;
        const bool is_next = next < recording.steps.size() && recording.steps[next].path == path;
        const std::optional<std::size_t> meant = names.find(path);
        if (!is_next && meant && recording.steps[*meant].path != path) {
            Step alias = recording.steps[*meant];
            alias.path = path;
            if (const std::string found = difference(alias, name, expected); !found.empty())
                return found;
            ++aliases;
            continue;
        }
        if (next == recording.steps.size())
            return "the step " + name + " is missing";
        if (const std::string found = difference(recording.steps[next++], name, expected); !found.empty())
            return found;
    }
    if (next < recording.steps.size())
        return "the step " + recording.steps[next].path + " is extra";
    for (const auto& [path, target] : recording.aliases)
        if (!std::ranges::any_of(golden, [&](const auto& of) { return of.first == path || of.first == path + '~'; }))
            return "the alias " + path + " of " + target + " is extra";
    return aliases == recording.aliases.size() ? ""
                                               : "the golden has " + std::to_string(aliases) + " aliases, the trace " +
                                                     std::to_string(recording.aliases.size());
}

// The comparison itself can fail: each kind of difference is one.

namespace {

Step bare_step(const std::string& path, const Array& value) { return {path, "", {}, "", {}, value}; }

const Golden golden{{"a", {{2}, {1, -infinity}}}, {"b", {{}, {NAN}}}};
const Step a = bare_step("a", {{2}, {1, -infinity}}), b = bare_step("b", {{}, {NAN}});

} // namespace

TEST_CASE("steps that equal the golden's agree with it", "[golden]")
{
    CHECK(difference({{a, b}, {}}, golden).empty());
    CHECK(difference({{bare_step("a", {{2}, {1 + 1e-13, -infinity}}), b}, {}}, golden).empty());
}

TEST_CASE("a golden finds a step that is missing, extra or out of order", "[golden]")
{
    CHECK(difference({{a}, {}}, golden) == "the step b is missing");
    CHECK(difference({{}, {}}, golden) == "the step a is missing");
    CHECK(difference({{a, b, bare_step("c", {{}, {0}})}, {}}, golden) == "the step c is extra");
    CHECK(difference({{b, a}, {}}, golden) == "found the step b, expected a");
}

TEST_CASE("a golden finds an alias that is missing or extra", "[golden]")
{
    const Golden with_copy{{"a", golden[0].second}, {"c", golden[0].second}, {"b", golden[1].second}};
    CHECK(difference({{a, b}, {{"c", "a"}}}, with_copy).empty());
    CHECK(difference({{a, b}, {}}, with_copy) == "found the step b, expected c");
    CHECK(difference({{a, b}, {{"c", "a"}}}, golden) == "the alias c of a is extra");
    CHECK(difference({{a, b}, {{"c", "b"}}}, with_copy) == "c has the shape (), expected (2,)");
}

TEST_CASE("a golden that there is not is named with what makes it", "[golden]")
{
    CHECK_THROWS_WITH(read_golden("99_future"),
                      "tests/golden/99_future.npz is missing: script/regenerate-goldens 99_future makes it");
}

TEST_CASE("a golden that keeps a sample of a large array finds another size, another sum and another extreme",
          "[golden]")
{
    Array large{{2, 50}, std::vector<double>(100, 0.5)};
    const Golden kept{{"large~", sample(large)}};
    CHECK(difference({{bare_step("large", large)}, {}}, kept).empty());
    CHECK(kept[0].second.size() == 3 + 4 + 25); // rank and sizes, statistics, every fourth number

    Array turned = large;
    turned.shape = {50, 2};
    CHECK_FALSE(difference({{bare_step("large", turned)}, {}}, kept).empty());
    Array off = large;
    off.values[1] += 1e-9; // not among those that are kept
    CHECK_FALSE(difference({{bare_step("large", off)}, {}}, kept).empty());
    off = large;
    std::swap(off.values[4], off.values[5] = 0.75);
    CHECK_FALSE(difference({{bare_step("large", off)}, {}}, kept).empty());
    CHECK(difference({{bare_step("other", large)}, {}}, kept) == "found the step other~, expected large~");
    large.values[3] = NAN;
    CHECK_FALSE(difference({{bare_step("large", large)}, {}}, kept).empty());
}

TEST_CASE("a golden finds another number, shape, infinity or NaN", "[golden]")
{
    CHECK(difference({{bare_step("a", {{2}, {1 + 1e-11, -infinity}}), b}, {}}, golden) ==
          "a at (0,) is 1.00000000001, expected 1");
    CHECK(difference({{bare_step("a", {{1, 2}, {1, -infinity}}), b}, {}}, golden) ==
          "a has the shape (1, 2), expected (2,)");
    CHECK_FALSE(difference({{bare_step("a", {{2}, {1, infinity}}), b}, {}}, golden).empty());
    CHECK_FALSE(difference({{bare_step("a", {{2}, {1, -1e308}}), b}, {}}, golden).empty());
    CHECK_FALSE(difference({{bare_step("a", {{2}, {NAN, -infinity}}), b}, {}}, golden).empty());
    CHECK_FALSE(difference({{bare_step("a", {{2}, {infinity, -infinity}}), b}, {}}, golden).empty());
    CHECK_FALSE(difference({{a, bare_step("b", {{}, {0}})}, {}}, golden).empty());
}
