// Where the arrays of MINE were assigned, as attn_record wrote it down.

#include "attn/diff/origin.hpp"

#include "attn/files/file.hpp"
#include "attn/files/json_file.hpp"
#include "attn/files/npz.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

namespace attn::diff {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* listing_name = "attn_record.json";
constexpr std::string_view listing_format = "attn record 1";
constexpr std::string_view wanted_listing =
    "what attn_record writes: {\"format\": \"attn record 1\", \"arrays\": [...]}";

std::optional<Json> listing_of_folder(const fs::path& file)
{
    std::error_code error;
    return fs::exists(file, error) ? std::optional(files::read_json_object(file, wanted_listing)) : std::nullopt;
}

std::optional<Json> listing_of_archive(const fs::path& path)
{
    const auto text = files::NpzReader(path).text(listing_name);
    return text ? std::optional(files::parse_json_object(*text, wanted_listing)) : std::nullopt;
}

std::string text_at(const Json& entry, const char* key)
{
    const auto found = entry.find(key);
    if (found == entry.end() || !found->is_string())
        throw Error(fmt::format("has an array without a text {}; expected {}", key, wanted_listing));
    return found->get<std::string>();
}

std::size_t line_at(const Json& entry)
{
    const auto line = entry.find("line");
    if (line == entry.end() || !line->is_number_unsigned())
        throw Error(fmt::format("has an array without a whole number line; expected {}", wanted_listing));
    return line->get<std::size_t>();
}

/// A list of names; nothing where there is none.
/// @param whose  what has it, for an error
std::optional<std::vector<std::string>> names_at(const Json& entry, const char* key, std::string_view whose)
{
    const auto names = entry.find(key);
    if (names == entry.end())
        return std::nullopt;
    if (!names->is_array() || !std::ranges::all_of(*names, [](const Json& one) { return one.is_string(); }))
        throw Error(fmt::format("{} {} are no list of names; expected {}", whose, key, wanted_listing));
    return names->get<std::vector<std::string>>();
}

/// Where a function was called, or an array assigned.
Origin place_at(const Json& entry)
{
    Origin origin;
    origin.line = line_at(entry);
    origin.file = text_at(entry, "file");
    origin.function = text_at(entry, "function");
    if (const auto call = entry.find("call"); call != entry.end() && call->is_number_unsigned())
        origin.call = call->get<std::size_t>();
    return origin;
}

Origin origin_at(const Json& entry)
{
    Origin origin = place_at(entry);
    origin.variable = text_at(entry, "variable");
    auto reads = names_at(entry, "reads", "has an array whose");
    origin.knows_reads = reads.has_value();
    origin.reads = std::move(reads).value_or(std::vector<std::string>{});
    return origin;
}

Listing listing_in(const Json& json)
{
    if (json.value("format", Json()) != Json(listing_format))
        throw Error(fmt::format("is not of the format {}; expected {}", listing_format, wanted_listing));
    const auto arrays = json.find("arrays");
    if (arrays == json.end() || !arrays->is_array())
        throw Error(fmt::format("has no list arrays; expected {}", wanted_listing));
    std::set<std::string> later; // nothing is computed from what comes after it, and nothing from itself
    for (const Json& entry : *arrays) {
        if (!entry.is_object())
            throw Error(fmt::format("has an array that is no object; expected {}", wanted_listing));
        if (!later.insert(text_at(entry, "name")).second)
            throw Error(fmt::format("lists {} twice", printable(text_at(entry, "name"))));
    }
    Listing listing;
    for (const Json& entry : *arrays) {
        const std::string name = text_at(entry, "name");
        const Origin& origin = listing.origins.emplace(name, origin_at(entry)).first->second;
        for (const std::string& read : origin.reads)
            if (later.contains(read))
                throw Error(fmt::format("says that {} was computed from {}, which does not come before it",
                                        printable(name), printable(read)));
        later.erase(name);
    }
    listing.results = names_at(json, "results", "is a listing whose").value_or(std::vector<std::string>{});
    if (const auto calls = json.find("calls"); calls != json.end() && calls->is_array())
        std::ranges::transform(*calls, std::back_inserter(listing.calls), place_at);
    if (json.contains("incomplete"))
        listing.incomplete = text_at(json, "incomplete");
    return listing;
}

} // namespace

Listing read_listing(const fs::path& path)
{
    std::error_code error;
    const bool is_folder = fs::is_directory(path, error);
    const fs::path file = is_folder ? path / listing_name : path;
    return files::about_file(file, is_folder ? "" : fmt::format("member {} ", listing_name), [&] {
        const auto json = is_folder ? listing_of_folder(file) : listing_of_archive(file);
        return json ? listing_in(*json) : Listing{};
    });
}

std::string text_of(const Origin& origin)
{
    const std::string what =
        origin.variable == "return" ? fmt::format("what {} returns", origin.function) : origin.variable;
    return fmt::format("{} ({}:{})", what, origin.file, origin.line);
}

} // namespace attn::diff
