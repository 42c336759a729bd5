#include "attn/files/npz.hpp"

#include "attn/core/step_name.hpp"
#include "attn/files/file.hpp"
#include "attn/files/npy.hpp"
#include "npz_writer.hpp"

#include <algorithm>
#include <set>
#include <span>

namespace attn::files {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view array_suffix = ".npy";

/// How a message begins that is about a member.
std::string role_of(const std::string& member) { return "member " + member + ' '; }

std::string two_called(const std::string& name)
{
    return "two members are called " + name + "; each needs a name of its own";
}

void expect_distinct(const fs::path& path, const std::vector<std::string>& names)
{
    std::set<std::string_view> seen;
    for (const std::string& name : names)
        if (!seen.insert(name).second)
            throw FileError(path, two_called(name));
}

/// The text to its end; memory grows as it comes.
std::string read_to_end(const ByteSource& source, std::size_t most_bytes)
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

} // namespace

NpzWriter::NpzWriter(fs::path path)
    : path_(std::move(path)), file_(path_), archive_([this](std::string_view bytes) { file_.write(bytes); })
{
}

void NpzWriter::add(const std::string& member, std::string_view bytes)
{
    if (!is_step_path(member))
        throw FileError(path_, "cannot be written: \"" + member +
                                   "\" is no plain name of letters, digits and _ with single dots between them");
    if (members_.contains(member))
        throw FileError(path_, two_called(member));
    const auto place = about_file(path_, "cannot be written: ", [&] { return archive_.add(member, bytes); });
    members_.emplace(member, place);
}

void NpzWriter::array(const std::string& name, const Array& array)
{
    const std::string member = name + std::string(array_suffix);
    add(member, about_file(path_, role_of(member), [&] { return encode_npy(array); }));
}

void NpzWriter::same_array(const std::string& name, const std::string& other)
{
    const auto& [begin, size] = members_.at(other + std::string(array_suffix));
    add(name + std::string(array_suffix), file_.written(begin, size));
}

void NpzWriter::finish(const std::string& comment, std::size_t leading)
{
    about_file(path_, "cannot be written: ", [&] { archive_.finish(comment, leading); });
    file_.commit();
}

NpzReader::NpzReader(fs::path path) : path_(std::move(path)), archive_(std::make_shared<ZipReader>(path_))
{
    const std::vector<std::string>& members = archive_->names();
    expect_distinct(path_, members);
    for (std::size_t member = 0; member < members.size(); ++member)
        if (members[member].ends_with(array_suffix)) {
            names_.push_back(members[member].substr(0, members[member].size() - array_suffix.size()));
            members_.push_back(member);
        }
}

Array NpzReader::outline(std::size_t place) const
{
    return about_file(path_, role_of(archive_->names()[members_[place]]),
                      [&] { return decode_npy_outline(archive_->open(members_[place])); });
}

Array NpzReader::array(std::size_t place, std::size_t most_elements) const
{
    return about_file(path_, role_of(archive_->names()[members_[place]]),
                      [&] { return decode_npy(archive_->open(members_[place]), most_elements); });
}

std::optional<std::string> NpzReader::text(const std::string& name, std::size_t most_bytes) const
{
    const auto found = std::ranges::find(archive_->names(), name);
    if (found == archive_->names().end())
        return std::nullopt;
    const auto member = static_cast<std::size_t>(found - archive_->names().begin());
    return about_file(path_, role_of(name), [&] { return read_to_end(archive_->open(member), most_bytes); });
}

std::string NpzReader::comment() const { return archive_->comment(); }

void read_npz_each(const fs::path& path, const std::function<void(const std::string&, Array)>& take,
                   const NpzLimits& limits, const NameFilter& is_wanted)
{
    const NpzReader file(path);
    std::size_t elements_left = limits.elements;
    for (std::size_t place = 0; place < file.names().size(); ++place) {
        if (!is_wanted(file.names()[place]))
            continue;
        Array array = file.array(place, elements_left);
        elements_left -= array.size();
        take(file.names()[place], std::move(array));
    }
}

NamedArrays read_npz(const fs::path& path, const NpzLimits& limits, const NameFilter& is_wanted)
{
    NamedArrays arrays;
    read_npz_each(
        path, [&](const std::string& name, Array array) { arrays.emplace(name, std::move(array)); }, limits, is_wanted);
    return arrays;
}

void write_npz(const fs::path& path, const Npz& content)
{
    if (content.texts.empty() && content.arrays.empty())
        throw FileError(path, "cannot be written: there is nothing to store");
    NpzWriter file(path);
    for (const auto& [name, text] : content.texts)
        file.text(name, text);
    for (const auto& [name, array] : content.arrays)
        file.array(name, array);
    file.finish(content.comment);
}

} // namespace attn::files
