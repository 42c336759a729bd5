// The attn program: commands on lessons and traces.
//
// Exit codes: 0 success, 1 the check failed, 2 wrong usage or unusable input.

#include "commands.hpp"

int main(int argc, char** argv)
{
    using namespace attn::cli;
    const Command program{.name = "attn",
                          .summary = "Attention and the Transformer, step by step.",
                          .commands = {lessons_command(), run_command(), verify_command(), explain_command(),
                                       diff_command(), view_command(), graph_command(), grad_command(),
                                       pitfalls_command()},
                          .version = ATTN_VERSION};
    return run_program(program, argc, argv);
}
