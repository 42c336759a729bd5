#include "diff_runs.hpp"

#include "json.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/core/error.hpp"
#include "attn/diff/runs.hpp"
#include "attn/files/npz.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace attn::cli {
namespace {

using Json = nlohmann::ordered_json;
using cli::json_of; // beside those for what diff says
using diff::Likeness;
using diff::RunPair;
using diff::RunsDiff;

std::string_view word_of(const RunsDiff& result)
{
    if (result.pairs.empty())
        return "undecided";
    if (!result.passed())
        return name_of(Likeness::different);
    return name_of(result.count(Likeness::rounding) > 0 ? Likeness::rounding : Likeness::equal);
}

std::string off_text(const RunPair& pair)
{
    if (pair.is_shape_wrong)
        return "neither has the shape of a part of the other that it is near";
    if (!std::isfinite(pair.off))
        return "one has infinities or NaN that the other does not have";
    const bool is_local = pair.off <= pair.allowed;
    return fmt::format("off by {:.3g} of its size{}; roundings can do {:.2g}", pair.off,
                       is_local ? fmt::format(", and in one number by {:.3g}", pair.largest) : "", pair.allowed);
}

/// What both are called.
std::string names_of(const RunPair& pair) { return pair.a == pair.b ? pair.a : pair.a + " and " + pair.b; }

std::string origins_of(const RunPair& pair)
{
    std::string text;
    if (pair.a_origin)
        text = text_of(*pair.a_origin);
    if (pair.b_origin && (!pair.a_origin || text_of(*pair.b_origin) != text))
        text += (text.empty() ? "" : " and ") + text_of(*pair.b_origin);
    return text;
}

void print_first(const RunPair& pair, NumberType type)
{
    const std::string where = origins_of(pair);
    if (!where.empty())
        print("first different: {}\n", where);
    print("first different array: {}: {}\n", names_of(pair), off_text(pair));
    if (!pair.is_shape_wrong)
        print("  worst: A{} is {}, B{} is {}\n", bracketed(pair.a_worst), number_text(pair.a_value, type),
              bracketed(pair.b_worst), number_text(pair.b_value, type));
    if (!pair.part.empty())
        print("  compared with {}\n", pair.part);
    for (const diff::Unshared& one : pair.unshared)
        print("  {} computes it from {}{}, which the other does not have\n", std::string(1, one.run), one.name,
              one.origin ? fmt::format(" ({}:{})", one.origin->file, one.origin->line) : "");
    if (!pair.has_effect)
        print("  without effect: what was computed from it is the same\n");
}

void print_different(const RunsDiff& result)
{
    constexpr std::size_t most = 20;
    const RunPair* first = result.first_different();
    std::size_t count = 0, following = 0;
    for (const RunPair& pair : result.pairs) {
        if (pair.likeness != Likeness::different || &pair == first)
            continue;
        if (pair.follows) {
            ++following;
            continue;
        }
        if (++count <= most)
            print("different  {}: {}{}{}\n", names_of(pair), off_text(pair), pair.part.empty() ? "" : "; " + pair.part,
                  pair.has_effect ? "" : "; without effect");
    }
    if (count > most)
        print("different  and {} more\n", count - most);
    if (following > 0)
        print("different  {} that {}\n", following,
              first->a_origin && first->a_origin->knows_reads ? "were computed from one that is" : "come after it");
}

void print_growth(const RunsDiff& result)
{
    if (result.layers.empty() || result.count(Likeness::equal) == result.pairs.size())
        return;
    print("how the difference grows, as a part of the numbers' size:\n");
    print("  {:<28} {:>9}  {:>9}\n", "layer", "its last", "its worst");
    for (const diff::LayerGrowth& layer : result.layers)
        print("  {:<28} {:>9}  {:>9}\n", layer.layer, fmt::format("{:.2g}", layer.off),
              fmt::format("{:.2g}", layer.worst));
}

void print_found(const RunsDiff& result)
{
    constexpr std::size_t most = 8;
    std::vector<std::string> others;
    for (const RunPair& pair : result.pairs)
        if (pair.how == "by its numbers" || pair.how == "by the end of its name")
            others.push_back(fmt::format("{} = {} {}", pair.a, pair.b, pair.how));
    if (others.size() > most)
        others.resize(most);
    for (const std::string& one : others)
        print("found {}\n", one);
    const auto list = [most](const std::vector<std::string>& names, char run) {
        if (names.empty())
            return;
        const std::vector<std::string> first(names.begin(),
                                             names.begin() + static_cast<std::ptrdiff_t>(std::min(most, names.size())));
        print("only in {}: {} arrays: {}{}\n", run, names.size(), fmt::format("{}", fmt::join(first, ", ")),
              names.size() > most ? ", …" : "");
    };
    list(result.only_a, 'A');
    list(result.only_b, 'B');
    if (result.is_search_cut)
        print("not every array was looked for by its numbers: there are too many\n");
}

/// The parts that differ in size, once each.
void print_parts(const RunsDiff& result)
{
    constexpr std::size_t most = 3;
    std::vector<std::string> parts;
    std::size_t count = 0;
    for (const RunPair& pair : result.pairs) {
        if (pair.part.empty())
            continue;
        ++count;
        if (parts.size() < most && pair.likeness != Likeness::different)
            parts.push_back(fmt::format("{} with {}", names_of(pair), pair.part));
    }
    if (count > 0)
        print("compared in part: {} of {}{}\n", count, result.pairs.size(),
              parts.empty() ? "" : fmt::format(", such as {}", fmt::join(parts, "; ")));
}

int report(const RunsDiff& result, const std::filesystem::path& a, const std::filesystem::path& b)
{
    if (const RunPair* first = result.first_different())
        print_first(*first, result.type);
    if (result.pairs.empty())
        print("nothing in common: no array of one has a name or the numbers of one of the other\n");
    print_different(result);
    print_growth(result);
    print_parts(result);
    print_found(result);
    std::string counts;
    for (const Likeness likeness : {Likeness::equal, Likeness::rounding, Likeness::different})
        if (const std::size_t count = result.count(likeness))
            counts += fmt::format(", {} {}", count, name_of(likeness));
    print("A is {}, B is {}: {}: {} compared as {}{}\n", a.string(), b.string(), word_of(result), result.pairs.size(),
          name_of(result.type), counts);
    return result.passed() ? 0 : 1;
}

// ------------------------------------------------------------------------------------------------ for machines

Json json_of(const std::optional<diff::Origin>& origin)
{
    if (!origin)
        return nullptr;
    return {
        {"file", origin->file}, {"line", origin->line}, {"variable", origin->variable}, {"function", origin->function}};
}

Json json_of(const RunPair& pair)
{
    Json unshared = Json::array();
    for (const diff::Unshared& one : pair.unshared)
        unshared.push_back({{"run", std::string(1, one.run)}, {"name", one.name}, {"origin", json_of(one.origin)}});
    return {{"a",
             {{"name", pair.a},
              {"origin", json_of(pair.a_origin)},
              {"index", pair.a_worst},
              {"value", json_of(pair.a_value)}}},
            {"b",
             {{"name", pair.b},
              {"origin", json_of(pair.b_origin)},
              {"index", pair.b_worst},
              {"value", json_of(pair.b_value)}}},
            {"verdict", name_of(pair.likeness)},
            {"how", pair.how},
            {"part", pair.part},
            {"shape_wrong", pair.is_shape_wrong},
            {"follows", pair.follows},
            {"has_effect", pair.has_effect},
            {"unshared", unshared},
            {"off", json_of(pair.off)},
            {"largest", json_of(pair.largest)},
            {"allowed", json_of(pair.allowed)}};
}

int report_for_machines(const RunsDiff& result)
{
    Json json{{"same", result.passed()},    {"verdict", word_of(result)}, {"type", name_of(result.type)},
              {"first_different", nullptr}, {"pairs", Json::array()},     {"only_a", result.only_a},
              {"only_b", result.only_b},    {"layers", Json::array()},    {"search_cut", result.is_search_cut}};
    for (const RunPair& pair : result.pairs)
        json["pairs"].push_back(json_of(pair));
    if (const RunPair* first = result.first_different())
        json["first_different"] = first - result.pairs.data();
    for (const diff::LayerGrowth& layer : result.layers)
        json["layers"].push_back({{"layer", layer.layer},
                                  {"last", layer.last},
                                  {"off", json_of(layer.off)},
                                  {"worst", json_of(layer.worst)}});
    print_json(json);
    return result.passed() ? 0 : 1;
}

} // namespace

bool is_trace(const std::filesystem::path& path)
{
    std::error_code error;
    return !std::filesystem::is_directory(path, error) && files::NpzReader(path).text("steps.json").has_value();
}

int diff_runs(const std::filesystem::path& a, const std::filesystem::path& b, bool is_for_machines)
{
    const RunsDiff result = diff::compare_runs(diff::read_run(a), diff::read_run(b));
    return is_for_machines ? report_for_machines(result) : report(result, a, b);
}

} // namespace attn::cli
