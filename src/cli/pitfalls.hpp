#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace attn {

/// Adds `pitfalls`, which lists the well-known mistakes that lessons and modules can be run with.
/// @return prints the list, and gives the program's exit code
std::function<int()> add_pitfalls_command(CLI::App& app);

} // namespace attn
