#pragma once

#include "attn/core/array.hpp"

#include "file_writer.hpp"
#include "zip.hpp"

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace attn::files {

/// Writes an .npz file member by member, each as it comes, as write_npz() does: without finish() nothing is left.
class NpzWriter {
public:
    /// @throws FileError  where the file cannot be written
    explicit NpzWriter(std::filesystem::path path);
    NpzWriter(const NpzWriter&) = delete;
    NpzWriter& operator=(const NpzWriter&) = delete;

    const std::filesystem::path& path() const { return path_; }

    /// @name Add a member
    /// @throws FileError  where the name is taken or no is_step_path(), a value cannot be stored, or the disk is full
    /// @{
    void text(const std::string& name, std::string_view text) { add(name, text); }
    void array(const std::string& name, const Array& array);
    /// An array of the numbers of another one.
    void same_array(const std::string& name, const std::string& other);
    /// @}

    /// @param leading  so many of the members that came last stand first in the list of the file
    void finish(const std::string& comment, std::size_t leading = 0);

private:
    void add(const std::string& member, std::string_view bytes);

    std::filesystem::path path_;
    FileWriter file_;
    ZipWriter archive_;
    std::map<std::string, ZipWriter::Place> members_;
};

} // namespace attn::files
