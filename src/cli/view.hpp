#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace attn {

/// Adds `view TRACE [-o PAGE]`.
/// @return writes or serves the page that the command line asked for, and gives the program's exit code
std::function<int()> add_view_command(CLI::App& app);

} // namespace attn
