#pragma once

#include <filesystem>

namespace attn::cli {

/// True for a file that has the steps of a trace.
bool is_trace(const std::filesystem::path& path);

/// attn diff of two runs that are no traces.
/// @param json_file  where JSON is written as well; nowhere where it is empty
/// @return the exit code
int diff_runs(const std::filesystem::path& a, const std::filesystem::path& b, bool is_for_machines,
              const std::filesystem::path& json_file);

} // namespace attn::cli
