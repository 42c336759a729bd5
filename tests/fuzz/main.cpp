#include "targets.hpp"

#include <cstddef>
#include <cstdint>

/// libFuzzer calls this with the bytes that it tries; any exception but this one, and any finding of the sanitizers,
/// stops it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    try {
        attn::fuzz::ATTN_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
    } catch (const attn::Error&) {
    }
    return 0;
}
