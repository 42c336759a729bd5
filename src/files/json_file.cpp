#include "attn/files/json_file.hpp"

#include "attn/files/file.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace attn::files {
namespace {

constexpr std::size_t longest_file = std::size_t{64} << 20; // a vocabulary of a million tokens has some twenty

std::string content_of(const std::filesystem::path& path, std::string_view wanted)
{
    std::ifstream file = open_file(path, wanted);
    std::error_code failed;
    if (std::filesystem::file_size(path, failed) > longest_file || failed)
        throw FileError(path, "is larger than 64 MiB; expected " + std::string(wanted));
    std::string content{std::istreambuf_iterator<char>(file), {}};
    if (file.bad())
        throw FileError(path, "can't be read");
    return content;
}

} // namespace

std::string json_fault(std::string_view text, std::size_t position, const nlohmann::json::exception& error)
{
    constexpr int number_out_of_range = 406;
    if (error.id == number_out_of_range)
        return "has a number that no 64 bits can hold";
    if (text.empty())
        return "is no JSON: it is empty";
    if (position > text.size())
        return "is no JSON: it ends too early";
    const std::size_t at = std::max<std::size_t>(position, 1) - 1;
    const std::string_view before = text.substr(0, at);
    const std::size_t line_begin = before.rfind('\n') + 1; // 0 where there is none
    return "is no JSON: it can't go on with \"" +
           printable(text.substr(at, std::max<std::size_t>(utf8_length(text.substr(at)), 1))) + "\" at line " +
           std::to_string(std::ranges::count(before, '\n') + 1) + ", byte " + std::to_string(at - line_begin + 1);
}

std::string json_fault(std::string_view text, const nlohmann::json::exception& error)
{
    const auto* fault = dynamic_cast<const nlohmann::json::parse_error*>(&error);
    return json_fault(text, fault == nullptr ? 0 : fault->byte, error);
}

void expect_small_parts(std::string_view json, const JsonLimits& limits)
{
    std::vector<std::size_t> keys; // so far, of the lists and objects around
    for (std::size_t at = 0; at < json.size(); ++at) {
        switch (json[at]) {
        case '"': // a text, up to its end
            for (++at; at < json.size() && json[at] != '"'; ++at)
                at += json[at] == '\\' ? 1 : 0;
            break;
        case '[':
        case '{':
            keys.push_back(0);
            if (keys.size() > limits.deepest)
                throw Error("is nested more than " + std::to_string(limits.deepest) + " deep");
            break;
        case ']':
        case '}':
            if (!keys.empty())
                keys.pop_back();
            break;
        case ':':
            if (!keys.empty() && ++keys.back() > limits.most_keys)
                throw Error("has an object of more than " + std::to_string(limits.most_keys) + " keys");
            break;
        default:
            break;
        }
    }
}

nlohmann::json parse_json_object(const std::string& text, std::string_view wanted)
{
    try {
        expect_small_parts(text, {.deepest = 8});
        nlohmann::json object = nlohmann::json::parse(text);
        if (!object.is_object())
            throw Error("is JSON, but no object");
        return object;
    } catch (const nlohmann::json::exception& error) {
        throw Error(json_fault(text, error) + "; expected " + std::string(wanted));
    } catch (const Error& error) {
        throw Error(std::string(error.what()) + "; expected " + std::string(wanted));
    }
}

nlohmann::json read_json_object(const std::filesystem::path& path, std::string_view wanted)
{
    const std::string content = content_of(path, wanted);
    return about_file(path, "", [&] { return parse_json_object(content, wanted); });
}

} // namespace attn::files
