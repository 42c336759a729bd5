#pragma once

#include "attn/recording.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace attn {

/// Another run of the same computation, to be shown beside the first.
struct ComparedSteps {
    std::string title; ///< its file's name
    std::vector<Step> steps;
};

/// What stands on a page besides the steps.
struct PageOptions {
    std::string title = "trace";       ///< what the steps are of: their file's name
    std::vector<std::string> tokens;   ///< labels of the axis n, queries, wherever it is as long
    std::vector<std::string> tokens_m; ///< labels of the axis m, keys; those of n unless given
    std::vector<ComparedSteps> others; ///< none, or one
};

/// One self-contained HTML page: the steps in order, each tensor as a heatmap, the arithmetic of each number.
///
/// It loads nothing and runs no script but its own, whatever the steps' texts say. Numbers are stored as write_trace
/// stores them, so that none changes on the way, and are decoded when they are looked at.
/// @throws Error  where tokens fit no axis, a value cannot be stored, or a browser could not open the page
std::string page_of(const std::vector<Step>& steps, const PageOptions& options = {});

/// Writes page_of() to a file. All of it or nothing, and the same steps give the same bytes.
/// @throws FileError  where the file can't be written
void write_page(const std::filesystem::path& path, const std::vector<Step>& steps, const PageOptions& options = {});

/// Reads labels for tokens, a line a token; an empty line is a token too, but for what follows the last line's end.
/// @throws FileError  where the file is missing, empty or no UTF-8
std::vector<std::string> read_tokens(const std::filesystem::path& path);

} // namespace attn
