#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace attn::files {

/// A file that is written part by part, and is seen under its name when it is complete: all of it or nothing, as
/// write_file() says, which is one of one part.
class FileWriter {
public:
    /// @throws FileError  where the folder is missing, or the target is a folder or write-protected
    explicit FileWriter(const std::filesystem::path& path);
    ~FileWriter();

    /// @throws FileError  where the disk is full
    void write(std::string_view bytes);

    /// Bytes that were written before.
    std::string written(std::size_t begin, std::size_t count) const;

    /// Gives the file its name. Without it nothing is left.
    /// @throws FileError  where that fails
    void commit();

private:
    struct File;
    void copy_into(int number) const;

    std::unique_ptr<File> file_;
};

} // namespace attn::files
