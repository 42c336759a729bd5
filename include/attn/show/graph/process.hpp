#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace attn::show {

/// What a program left that has ended.
struct ProcessResult {
    enum class End { exited, not_found, too_slow };

    End end = End::exited;
    int code = 0; ///< its exit code; 128 + N where signal N ended it
    std::string output, errors;
};

/// What becomes of a program's standard output and standard error: kept for the result, or written where this one's go.
enum class ProcessOutput { kept, shared };

/// Runs a program that is looked for in PATH, without a shell. It ends with this one, whatever ends this one, and so do the
/// programs that it has started.
/// @param words    its name and its arguments
/// @param input    its standard input
/// @param longest   after which it is ended, as it is where a signal is deferred that ends this program
/// @param too_slow  called before that, with what it has written to its standard error, while it still runs
/// @throws Error  where there is no space for temporary files, or no process can be started
ProcessResult run_process(std::vector<std::string> words, std::string_view input, std::chrono::milliseconds longest,
                          const std::function<void(const std::string& errors)>& too_slow = {},
                          ProcessOutput kind = ProcessOutput::kept);

} // namespace attn::show
