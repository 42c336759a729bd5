#pragma once

#include "attn/files/families/model.hpp"
#include "attn/reference/models/language_model.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace attn::cli {

/// What an earlier run of a model has left in its trace: of each layer the cache, and where the tokens in it stand.
/// @throws files::FileError  where the file is damaged, lacks a part of the cache, has one of another shape or with numbers that can't
///                           be, or is of another model, as far as it has weights
PlacedCache read_past(const std::filesystem::path& path, const files::Model& model);

/// Where the tokens of each sequence stand.
struct TokenPositions {
    std::string
        text; ///< "0,1,5", of one sequence; "3:" from 3 on, of each; else an .npz file with positions, in the shape of the ids
    Shape ids; ///< the shape of the ids

    /// @return of one sequence (1, n), of a batch (b, n), padding among them
    /// @throws Error             of a text
    /// @throws files::FileError  of a file
    IntegerMatrix read() const;

    bool is_file() const { return text.find_first_not_of("0123456789,:") != std::string::npos; }
};

} // namespace attn::cli
