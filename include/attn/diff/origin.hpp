#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attn::diff {

/// Where an array was assigned to a variable, in the program that it was recorded from.
struct Origin {
    std::string file; ///< "model.py"
    std::size_t line = 0;
    std::string variable;                 ///< "att"; "return" for what a function returned
    std::string function;                 ///< "CausalSelfAttention.forward"
    bool knows_reads = false;             ///< whether the program says
    std::vector<std::string> reads;       ///< the names of the arrays that it was computed from
    std::optional<std::size_t> call = {}; ///< the number of the call that assigned it; none outside of functions
};

/// Origins by the names of arrays, for all that a recorder wrote.
using Origins = std::map<std::string, Origin, std::less<>>;

/// What a recorder says of the arrays that it wrote.
struct Listing {
    Origins origins;                  ///< empty where no recorder wrote them
    std::vector<std::string> results; ///< the names of what the recorded call returned, where there is one
    std::string incomplete;           ///< why arrays can be missing; empty where none is
    std::vector<Origin> calls;        ///< where functions were called, by the numbers of the calls
};

/// What attn_record.json says, a member of an .npz file or a file in a folder of .npy files. docs/record.md says what is
/// in it.
/// @return empty where there is no attn_record.json
/// @throws FileError  where it is malformed
Listing read_listing(const std::filesystem::path& path);

/// "att (model.py:62)", or "what softmax returns (model.py:12)".
std::string text_of(const Origin& origin);

} // namespace attn::diff
