#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace attn {

/// Adds `diff REFERENCE MINE`.
/// @return compares what the command line names, and gives the program's exit code: 0 the same, 1 different
std::function<int()> add_diff_command(CLI::App& app);

} // namespace attn
