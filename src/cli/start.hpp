#pragma once

namespace attn::cli {

/// What each program does first, before it looks at its command line: see prepare_streams(). With it comes what has to be
/// done before main() begins, so that little memory is no reason to hang or to end by a signal.
void start_program();

} // namespace attn::cli
