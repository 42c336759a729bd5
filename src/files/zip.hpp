#pragma once

#include "attn/files/npy.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct zip; // libzip's

namespace attn::files {

/// Writes a zip archive of members that are stored as they are, each as it comes.
///
/// The same members always give the same bytes: they do not depend on the clock, time zone, user or compressor.
class ZipWriter {
public:
    /// @param write  takes the bytes of the archive, in order
    explicit ZipWriter(std::function<void(std::string_view)> write) : write_(std::move(write)) {}

    /// Where a member's bytes are in the archive.
    struct Place {
        std::size_t begin, size;
    };

    /// @throws Error  where the name is too long
    Place add(std::string_view name, std::string_view bytes);

    /// Writes the directory.
    /// @param leading  so many of the members that came last stand first in it
    /// @throws Error  where the note is too long
    void finish(std::string_view comment, std::size_t leading = 0);

private:
    struct Member {
        std::string name;
        std::size_t header, size;
        std::uint32_t checksum;
    };

    static std::string common_part(const Member& member, const std::string& more);
    void put(std::string_view bytes);

    std::function<void(std::string_view)> write_;
    std::vector<Member> members_;
    std::size_t size_ = 0;
};

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
