#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace attn {

/// Adds `run MODULE`, with a subcommand for each module that takes the flags of that module only.
/// @return does the run that the command line asked for, and gives the program's exit code
std::function<int()> add_run_command(CLI::App& app);

} // namespace attn
