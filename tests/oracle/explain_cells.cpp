// Explains many numbers of one trace in one go: explain_cells TRACE, and on standard input lines "PATH OFFSET".
//
// What attn explain would print for each, or why it can't, each followed by a zero byte: a process per
// number would take too long.

#include "attn/core/error.hpp"
#include "attn/files/trace_file.hpp"
#include "attn/formula/explain.hpp"

#include <algorithm>
#include <iostream>

namespace {

std::string explained(const attn::Recording& recording, const attn::Step& step, std::size_t offset)
{
    try {
        return attn::formula::to_text(attn::formula::explain(recording, step, offset));
    } catch (const attn::Error& error) {
        return std::string(error.what()) + '\n';
    }
}

} // namespace

int main(int argc, char** argv)
{
    if (argc != 2)
        return 2;
    try {
        const attn::Recording recording = attn::files::read_trace(argv[1]);
        const std::vector<attn::Step>& steps = recording.steps;
        std::string path;
        std::size_t offset = 0;
        while (std::cin >> path >> offset) {
            const auto step = std::ranges::find(steps, path, &attn::Step::path);
            if (step == steps.end() || offset >= step->value.size())
                throw attn::Error(path + " has no number " + std::to_string(offset));
            std::cout << explained(recording, *step, offset) << '\0';
        }
    } catch (const attn::Error& error) {
        std::cerr << error.what() << '\n';
        return 2;
    }
    return std::cout.flush() ? 0 : 2;
}
