#include "traces.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

/// libFuzzer asks this for the next input: half of the time a trace changed as one, else as bytes.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed)
{
    using namespace attn::fuzz;
    if (seed % 2 == 0)
        return LLVMFuzzerMutate(data, size, most);
    constexpr std::string_view separator = "---\n";
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::size_t second = text.find(separator);
    std::string changed;
    try {
        const std::string_view first = text.substr(0, second);
        const bool has_second = second != std::string_view::npos;
        const bool changes_second = has_second && seed % 4 == 1;
        changed = text_of(changes_second ? trace_of(first) : mutated(trace_of(first), seed));
        if (has_second || seed % 8 == 3) { // MINE, or the same once more
            attn::Recording other = trace_of(has_second ? text.substr(second + separator.size()) : first);
            changed += std::string(separator) + text_of(changes_second ? mutated(std::move(other), seed) : other);
        }
    } catch (const attn::Error&) {
        return LLVMFuzzerMutate(data, size, most);
    }
    const std::size_t length = std::min(changed.size(), most);
    std::memcpy(data, changed.data(), length);
    return length;
}
