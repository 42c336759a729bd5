#pragma once

#include "attn/core/error.hpp"
#include "attn/core/utf8.hpp"

#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <string_view>

namespace attn::files {

/// A file that cannot be read or written. One line: the file, what was found, what was expected, what to do.
class FileError : public Error {
public:
    /// @param path     the file
    /// @param message  what is wrong with it; bytes of the file in it are made printable, and what is long is cut
    FileError(std::filesystem::path path, std::string_view message);

    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

/// Calls a function that works on a file, and names the file in its error.
/// @param role  how the message begins, with a blank at its end: "member x.npy "; or nothing
/// @throws FileError  in place of another Error, and where memory does not suffice
template <class Action>
auto about_file(const std::filesystem::path& path, std::string_view role, const Action& action)
{
    try {
        return action();
    } catch (const FileError&) {
        throw;
    } catch (const std::bad_alloc&) {
        throw FileError(path, std::string(role) + "does not fit into memory");
    } catch (const Error& error) {
        throw FileError(path, std::string(role) + error.what());
    }
}

/// Refuses a path that is not a file on disk.
/// @param kind  what it should be: "an .npz file"
/// @throws FileError  where there is nothing, or a folder, a device or a pipe
void expect_regular_file(const std::filesystem::path& path, std::string_view kind);

/// Opens a file on disk for reading its bytes.
/// @param kind  what it should be: "an .npz file"
/// @throws FileError  where it is none, or cannot be opened, such as where too many files are open
std::ifstream open_file(const std::filesystem::path& path, std::string_view kind);

/// Writes a whole file or nothing: into a temporary file of the same folder, which then takes the name.
///
/// A link stays, and the file that it leads to is replaced. A device or a pipe, such as /dev/null, is written into, since
/// there is nothing to replace. What was there before stays as it was when anything fails.
///
/// @throws FileError  where the folder is missing, the target is a folder or write-protected, or the disk is full
void write_file(const std::filesystem::path& path, std::string_view bytes);

} // namespace attn::files
