#pragma once

#include "attn/cli/flags.hpp"

namespace attn::cli {

/// @name The subcommands of attn, each in a file with its name
/// @{
Command lessons_command();
Command run_command();
Command verify_command();
Command explain_command();
Command diff_command();
Command view_command();
Command graph_command();
Command grad_command();
Command pitfalls_command();
/// @}

} // namespace attn::cli
