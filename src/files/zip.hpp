#pragma once

#include "attn/files/npy.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

struct zip; // libzip's

namespace attn::files {

/// A member of a zip archive: its file name and content.
struct ZipMember {
    std::string name;
    std::string bytes;
};

/// The bytes of an archive of these members, in their order, stored as they are.
///
/// The same members always give the same bytes: they do not depend on the clock, time zone, user or compressor.
///
/// @throws Error  where libzip refuses, as for too long a name
std::string zip_archive(const std::vector<ZipMember>& members, const std::string& comment);

class ZipReader {
public:
    /// @throws FileError  where there is no such file, it is no regular one, or it is no whole zip archive
    explicit ZipReader(const std::filesystem::path& path);

    /// The members' names in the order of the archive's directory.
    const std::vector<std::string>& names() const { return names_; }

    /// The archive's note; empty where it has none.
    std::string comment() const;

    /// The uncompressed bytes of one member, as they are asked for; its size and checksum are compared at the end.
    /// @return a source that must not outlive the reader
    /// @throws Error  then or when read from, where the member is damaged, encrypted or in an unknown compression
    ByteSource open(std::size_t index) const;

private:
    std::shared_ptr<::zip> archive_;
    std::vector<std::string> names_;
};

} // namespace attn::files
