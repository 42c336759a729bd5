#include "attn/trace_io/json_file.hpp"

#include "attn/trace_io/file.hpp"

#include <fstream>
#include <iterator>
#include <string>

namespace attn {
namespace {

using Json = nlohmann::json;

constexpr std::size_t longest_file = std::size_t{64} << 20; // a vocabulary of a million tokens has some twenty

std::string content_of(const std::filesystem::path& path, std::string_view wanted)
{
    std::error_code failed;
    if (!std::filesystem::is_regular_file(path, failed))
        throw FileError(path, "is no file; expected " + std::string(wanted));
    if (std::filesystem::file_size(path, failed) > longest_file || failed)
        throw FileError(path, "is larger than 64 MiB; expected " + std::string(wanted));
    std::ifstream file(path, std::ios::binary);
    std::string content{std::istreambuf_iterator<char>(file), {}};
    if (file.bad())
        throw FileError(path, "can't be read");
    return content;
}

/// Refuses what is nested deeper than any such file is, before it is built.
bool is_shallow(int depth, Json::parse_event_t event, Json&)
{
    if ((event == Json::parse_event_t::array_start || event == Json::parse_event_t::object_start) && depth > 8)
        throw Error("is nested more than 8 deep");
    return true;
}

} // namespace

Json read_json_object(const std::filesystem::path& path, std::string_view wanted)
{
    const std::string content = content_of(path, wanted);
    try {
        Json object = Json::parse(content, is_shallow);
        if (!object.is_object())
            throw Error("is JSON, but no object");
        return object;
    } catch (const Json::exception& error) {
        throw FileError(path, "is no JSON: " + std::string(error.what()) + "; expected " + std::string(wanted));
    } catch (const Error& error) {
        throw FileError(path, std::string(error.what()) + "; expected " + std::string(wanted));
    }
}

} // namespace attn
