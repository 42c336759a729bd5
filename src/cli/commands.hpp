#pragma once

#include "attn/cli/flags.hpp"

namespace attn::cli {

/// The subcommands of attn, in the order of its --help: a new one needs its file, NAME.cpp, which defines NAME_command(), and a
/// line here.
#define ATTN_COMMANDS(COMMAND)                                                                                         \
    COMMAND(lessons)                                                                                                   \
    COMMAND(exercise)                                                                                                  \
    COMMAND(run)                                                                                                       \
    COMMAND(verify)                                                                                                    \
    COMMAND(explain)                                                                                                   \
    COMMAND(diff)                                                                                                      \
    COMMAND(view)                                                                                                      \
    COMMAND(graph)                                                                                                     \
    COMMAND(grad)                                                                                                      \
    COMMAND(pitfalls)                                                                                                  \
    COMMAND(vectors)

#define ATTN_DECLARE(name) Command name##_command();
ATTN_COMMANDS(ATTN_DECLARE)
#undef ATTN_DECLARE

} // namespace attn::cli
