#pragma once

#include "attn/core/array.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attn::files {

/// The limits of what a reader accepts from a file.
struct NpzLimits {
    std::size_t elements = std::size_t{1} << 29;   ///< of all arrays together: 4 GiB of doubles
    std::size_t text_bytes = std::size_t{1} << 26; ///< of each text: 64 MiB
};

/// The content of an .npz file, in the file's order.
struct Npz {
    std::vector<std::pair<std::string, std::string>> texts; ///< members that are no arrays, by file name: steps.json
    std::vector<std::pair<std::string, Array>> arrays;      ///< the member "scores.npy" is the array "scores"
    std::string comment;                                    ///< the zip archive's own note
};

/// Arrays by name.
using NamedArrays = std::map<std::string, Array, std::less<>>;

/// Which arrays to read, by their names.
using NameFilter = std::function<bool(const std::string& name)>;
inline bool any_name(const std::string&) { return true; }

class ZipReader;

/// An .npz file whose arrays are read when they are asked for.
class NpzReader {
public:
    /// @throws FileError  where the file is missing or damaged, or two members share a name
    explicit NpzReader(std::filesystem::path path);

    const std::filesystem::path& path() const { return path_; }

    /// The arrays' names in the file's order.
    const std::vector<std::string>& names() const { return names_; }

    /// The shape and type of the array of that place, without its values.
    /// @throws FileError  where it cannot be decoded
    Array outline(std::size_t place) const;

    /// @param most_elements  refuse a larger array before reading it
    /// @throws FileError  where it cannot be decoded
    Array array(std::size_t place, std::size_t most_elements = NpzLimits{}.elements) const;

    /// A member that is no array; nothing where there is none of that name.
    /// @throws FileError  where it is damaged or too long
    std::optional<std::string> text(const std::string& name, std::size_t most_bytes = NpzLimits{}.text_bytes) const;

    /// The zip archive's own note.
    std::string comment() const;

private:
    std::filesystem::path path_;
    std::shared_ptr<const ZipReader> archive_;
    std::vector<std::string> names_;
    std::vector<std::size_t> members_; ///< of the arrays, in the archive
};

/// Reads the arrays of an .npz file, stored or deflated; every other member is ignored, so a trace can be read as well.
///
/// @param is_wanted  the others are passed over
/// @throws FileError  where the file is missing or damaged, two members share a name, or an array cannot be decoded
/// @see decode_npy for the arrays that are understood
NamedArrays read_npz(const std::filesystem::path& path, const NpzLimits& limits = {},
                     const NameFilter& is_wanted = any_name);

/// The same array by array in the file's order, for those who don't keep all of them.
/// @param take  hears each array's name and gets the array
void read_npz_each(const std::filesystem::path& path, const std::function<void(const std::string&, Array)>& take,
                   const NpzLimits& limits = {}, const NameFilter& is_wanted = any_name);

/// Writes an .npz file that numpy.load reads; the texts come first. All of it or nothing, and always the same bytes.
///
/// @throws FileError  where a name is taken or no is_step_path(), a value cannot be stored, or the file cannot be written
/// @see write_file, encode_npy
void write_npz(const std::filesystem::path& path, const Npz& content);

} // namespace attn::files
