#pragma once

#include <filesystem>

namespace attn::cli {

/// True for a file that has the steps of a trace.
bool is_trace(const std::filesystem::path& path);

/// attn diff of two runs that are no traces.
/// @return the exit code
int diff_runs(const std::filesystem::path& a, const std::filesystem::path& b, bool is_for_machines);

} // namespace attn::cli
