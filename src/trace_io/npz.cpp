#include "attn/trace_io/npz.hpp"

#include "attn/trace_io/file.hpp"
#include "attn/step_name.hpp"
#include "attn/trace_io/npy.hpp"
#include "zip.hpp"

#include <algorithm>
#include <new>
#include <set>
#include <span>

namespace attn {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view array_suffix = ".npy";

/// Runs what may complain about a member, and says in which file and member that was.
template <class F>
void about_member(const fs::path& path, const std::string& member, F&& action)
{
    try {
        action();
    } catch (const std::bad_alloc&) {
        throw FileError(path, "member " + member + " does not fit into memory");
    } catch (const Error& error) {
        throw FileError(path, "member " + member + ' ' + error.what());
    }
}

void expect_distinct(const fs::path& path, const std::vector<std::string>& names)
{
    std::set<std::string_view> seen;
    for (const std::string& name : names)
        if (!seen.insert(name).second)
            throw FileError(path, "two members are called " + name + "; each needs a name of its own");
}

void expect_plain(const fs::path& path, const std::vector<std::string>& names)
{
    for (const std::string& name : names)
        if (!is_step_path(name))
            throw FileError(path, "cannot be written: \"" + name +
                                      "\" is no plain name of letters, digits and _ with single dots between them");
}

/// The text to its end; memory grows as it comes.
std::string read_text(const ByteSource& source, std::size_t most_bytes)
{
    constexpr std::size_t chunk = 65536;
    std::string text;
    while (true) {
        const std::size_t before = text.size();
        text.resize(before + chunk);
        text.resize(before + source(std::span(text).subspan(before)));
        if (text.size() > most_bytes)
            throw Error("is longer than the " + std::to_string(most_bytes) + " bytes that are accepted");
        if (text.size() < before + chunk)
            return text;
    }
}

std::vector<ZipMember> encode(const fs::path& path, const Npz& content)
{
    std::vector<ZipMember> members;
    for (const auto& [name, text] : content.texts)
        members.push_back({name, text});
    for (const auto& [name, array] : content.arrays) {
        ZipMember& member = members.emplace_back(ZipMember{name + std::string(array_suffix), {}});
        about_member(path, member.name, [&, &values = array] { member.bytes = encode_npy(values); });
    }
    return members;
}

/// Reads every array, and those texts that are asked for, in the file's order.
template <class TakeText, class TakeArray>
void read_members(const fs::path& path, const ZipReader& archive, const std::vector<std::string>& texts,
                  const NpzLimits& limits, const TakeText& take_text, const TakeArray& take_array)
{
    const std::vector<std::string>& names = archive.names();
    expect_distinct(path, names);

    std::size_t elements_left = limits.elements;
    for (std::size_t index = 0; index < names.size(); ++index)
        about_member(path, names[index], [&, name = names[index]] {
            if (name.ends_with(array_suffix)) {
                Array array = decode_npy(archive.open(index), elements_left);
                elements_left -= array.size();
                take_array(name.substr(0, name.size() - array_suffix.size()), std::move(array));
            } else if (std::ranges::find(texts, name) != texts.end()) {
                take_text(name, read_text(archive.open(index), limits.text_bytes));
            }
        });
}

} // namespace

void read_npz_each(const fs::path& path, const std::function<void(const std::string&, Array)>& take,
                   const NpzLimits& limits)
{
    const ZipReader archive(path);
    read_members(
        path, archive, {}, limits, [](const std::string&, const std::string&) {}, take);
}

Npz read_npz_members(const fs::path& path, const std::vector<std::string>& texts, const NpzLimits& limits)
{
    const ZipReader archive(path);
    Npz content{{}, {}, archive.comment()};
    read_members(
        path, archive, texts, limits,
        [&](const std::string& name, std::string text) { content.texts.emplace_back(name, std::move(text)); },
        [&](const std::string& name, Array array) { content.arrays.emplace_back(name, std::move(array)); });
    return content;
}

NamedArrays read_npz(const fs::path& path, const NpzLimits& limits)
{
    NamedArrays arrays;
    read_npz_each(
        path, [&](const std::string& name, Array array) { arrays.emplace(name, std::move(array)); }, limits);
    return arrays;
}

void write_npz(const fs::path& path, const Npz& content)
{
    if (content.texts.empty() && content.arrays.empty())
        throw FileError(path, "cannot be written: there is nothing to store");
    const std::vector<ZipMember> members = encode(path, content);
    std::vector<std::string> names(members.size());
    std::ranges::transform(members, names.begin(), &ZipMember::name);
    expect_plain(path, names);
    expect_distinct(path, names);

    std::string bytes;
    try {
        bytes = zip_archive(members, content.comment);
    } catch (const Error& error) {
        throw FileError(path, std::string("cannot be written: ") + error.what());
    }
    write_file(path, bytes);
}

} // namespace attn
