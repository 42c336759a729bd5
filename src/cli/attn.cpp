// The attn program: commands on lessons and traces.
//
// Exit codes: 0 success, 1 the check failed, 2 wrong usage or unusable input.

#include "commands.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace {

/// The memory of an array that is gone serves the next one: to get new pages from the system, which zeroes them, takes longer
/// than to compute what most steps write there.
void keep_freed_memory()
{
#ifdef __GLIBC__
    constexpr int gibibyte = 1 << 30, at_once = 1 << 26;
    mallopt(M_MMAP_THRESHOLD, gibibyte);
    mallopt(M_TRIM_THRESHOLD, gibibyte);
    mallopt(M_TOP_PAD, at_once);
#endif
}

} // namespace

int main(int argc, char** argv)
{
    using namespace attn::cli;
    keep_freed_memory();
#define ATTN_CALL(name) name##_command(),
    const Command program{.name = "attn",
                          .summary = "Attention and the Transformer, step by step.",
                          .commands = {ATTN_COMMANDS(ATTN_CALL)},
                          .version = ATTN_VERSION};
#undef ATTN_CALL
    return run_program(program, argc, argv);
}
