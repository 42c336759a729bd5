#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace attn {

/// Adds `explain TRACE STEP[index]`, which prints the arithmetic of one number.
/// @return does what the command line asked for, and gives the program's exit code
std::function<int()> add_explain_command(CLI::App& app);

} // namespace attn
