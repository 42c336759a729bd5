#include "diff_runs.hpp"

#include "json.hpp"

#include "attn/cli/print_escaped.hpp"
#include "attn/diff/runs.hpp"
#include "attn/files/file.hpp"
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

void print_first(const RunsDiff& result)
{
    const RunPair& pair = *result.first_different();
    const NumberType type = result.type;
    const std::string where = origins_of(pair);
    const auto place = [](const std::string& name, const std::optional<diff::Origin>& origin) {
        return origin ? fmt::format("{} ({}:{})", name, origin->file, origin->line) : "none";
    };
    if (result.between)
        print("last same: {}; first different: {}\n", place(result.between->last_name, result.between->last_same),
              place(result.between->first_name, result.between->first_different));
    else if (!where.empty())
        print("first different: {}\n", where);
    print("first different array: {}: {}\n", names_of(pair), off_text(pair));
    if (!pair.is_shape_wrong)
        print("  worst: A{} is {}, B{} is {}\n", bracketed(pair.a_worst), number_text(pair.a_value, type),
              bracketed(pair.b_worst), number_text(pair.b_value, type));
    if (!pair.part.empty())
        print("  compared with {}\n", pair.part);
    constexpr std::size_t most = 8;
    for (std::size_t i = 0; i < std::min(most, pair.unshared.size()); ++i) {
        const diff::Unshared& one = pair.unshared[i];
        print("  {} computes it from {}{}, which was not compared\n", std::string(1, one.run), one.name,
              one.origin ? fmt::format(" ({}:{})", one.origin->file, one.origin->line) : "");
    }
    if (pair.unshared.size() > most)
        print("  and {} more\n", pair.unshared.size() - most);
}

void print_different(const RunsDiff& result)
{
    constexpr std::size_t most = 20;
    const RunPair* first = result.first_different();
    std::size_t count = 0, following = 0;
    for (const RunPair& pair : result.pairs) {
        if (pair.likeness <= Likeness::rounding || &pair == first)
            continue;
        if (pair.follows && pair.likeness == Likeness::different)
            ++following;
        else if (++count <= most)
            print("{}  {}: {}{}{}\n", name_of(pair.likeness), names_of(pair), off_text(pair),
                  pair.part.empty() ? "" : "; " + pair.part,
                  pair.likeness == Likeness::without_effect ? "; what was computed from it is the same" : "");
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

/// The results that were compared, and those that were not.
void print_results(const RunsDiff& result)
{
    constexpr std::size_t most = 4;
    for (const bool is_compared : {true, false}) {
        std::vector<std::string> names;
        for (const diff::RunResult& one : result.results)
            if (one.is_compared == is_compared)
                names.push_back(fmt::format("{}'s {}", one.run, one.name));
        if (names.empty())
            continue;
        const std::size_t count = names.size();
        names.resize(std::min(most, count));
        print("results{} compared: {}{}\n", is_compared ? "" : " not", fmt::format("{}", fmt::join(names, ", ")),
              count > most ? fmt::format(" and {} more", count - most) : "");
    }
}

int report(const RunsDiff& result, const std::filesystem::path& a, const std::filesystem::path& b)
{
    if (result.first_different() != nullptr)
        print_first(result);
    if (!result.passed())
        for (const std::string& why : result.why_undecided)
            print("undecided: {}\n", why);
    print_different(result);
    print_results(result);
    print_growth(result);
    print_parts(result);
    print_found(result);
    std::string counts;
    for (const Likeness likeness :
         {Likeness::equal, Likeness::rounding, Likeness::without_effect, Likeness::undecided, Likeness::different})
        if (const std::size_t count = result.count(likeness))
            counts += fmt::format(", {} {}", count, name_of(likeness));
    print("A is {}, B is {}: {}: {} compared as {}{}\n", a.string(), b.string(), name_of(result.verdict()),
          result.pairs.size(), name_of(result.type), counts);
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
            {"has_effect", pair.likeness != Likeness::without_effect},
            {"unshared", unshared},
            {"off", json_of(pair.off)},
            {"largest", json_of(pair.largest)},
            {"allowed", json_of(pair.allowed)}};
}

Json json_of(const RunsDiff& result)
{
    Json json{{"same", result.passed()},
              {"verdict", name_of(result.verdict())},
              {"type", name_of(result.type)},
              {"first_different", nullptr},
              {"between", nullptr},
              {"pairs", Json::array()},
              {"only_a", result.only_a},
              {"only_b", result.only_b},
              {"compared", {{"results", Json::array()}, {"not_compared", Json::array()}}},
              {"why_undecided", result.why_undecided},
              {"layers", Json::array()},
              {"search_cut", result.is_search_cut}};
    for (const RunPair& pair : result.pairs)
        json["pairs"].push_back(json_of(pair));
    if (const RunPair* first = result.first_different())
        json["first_different"] = first - result.pairs.data();
    if (result.between)
        json["between"] = {{"last_right", json_of(result.between->last_same)},
                           {"first_wrong", json_of(std::optional(result.between->first_different))}};
    for (const diff::RunResult& one : result.results)
        json["compared"][one.is_compared ? "results" : "not_compared"].push_back(
            {{"run", std::string(1, one.run)}, {"name", one.name}});
    for (const diff::LayerGrowth& layer : result.layers)
        json["layers"].push_back({{"layer", layer.layer},
                                  {"last", layer.last},
                                  {"off", json_of(layer.off)},
                                  {"worst", json_of(layer.worst)}});
    return json;
}

} // namespace

bool is_trace(const std::filesystem::path& path)
{
    std::error_code error;
    return !std::filesystem::is_directory(path, error) && files::NpzReader(path).text("steps.json").has_value();
}

int diff_runs(const std::filesystem::path& a, const std::filesystem::path& b, bool is_for_machines,
              const std::filesystem::path& json_file)
{
    const RunsDiff result = diff::compare_runs(diff::read_run(a), diff::read_run(b));
    if (!json_file.empty())
        files::write_file(json_file, json_text(json_of(result)));
    if (!is_for_machines)
        return report(result, a, b);
    print_json(json_of(result));
    return result.passed() ? 0 : 1;
}

} // namespace attn::cli
