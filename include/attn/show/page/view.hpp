#pragma once

#include "attn/core/recording.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace attn::show {

/// A run, and what the page calls it: its file's name.
struct TitledRecording {
    std::string title;
    Recording recording;
};

/// Labels of the entries of an axis, wherever it has as many entries.
struct TokenLabels {
    std::vector<std::string> n; ///< of the queries
    std::vector<std::string> m; ///< of the keys; those of n unless given
};

/// One self-contained HTML page: the steps in order, each tensor as a heatmap, the arithmetic of each number.
///
/// It loads nothing and runs no script but its own, whatever the steps' texts say. Numbers are stored as write_trace
/// stores them, so that none changes on the way. Explanations, as formula::explain() gives them, are in the page for the steps
/// with the fewest numbers, up to a size that still opens at once; for the others the page shows the `attn explain`
/// command.
///
/// @param runs  one, or two to compare
/// @throws Error  where tokens fit no axis, two runs have no step in common, a value cannot be stored, or a browser
///                could not open the page
std::string page_of(std::vector<TitledRecording> runs, const TokenLabels& labels = {});

/// Reads labels for tokens, one per line; an empty line is a token too, but not what follows the last line's end.
/// @throws FileError  where the file is missing, empty or not UTF-8
std::vector<std::string> read_tokens(const std::filesystem::path& path);

} // namespace attn::show
