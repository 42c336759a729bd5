// The attn program: commands on lessons and traces.
//
// Exit codes: 0 success, 1 the check failed, 2 wrong usage or unusable input.

#include "commands.hpp"

int main(int argc, char** argv)
{
    using namespace attn::cli;
#define ATTN_CALL(name) name##_command(),
    const Command program{.name = "attn",
                          .summary = "Attention and the Transformer, step by step.",
                          .commands = {ATTN_COMMANDS(ATTN_CALL)},
                          .version = ATTN_VERSION};
#undef ATTN_CALL
    return run_program(program, argc, argv);
}
