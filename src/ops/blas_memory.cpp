#include "blas_memory.hpp"

#include "attn/error.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>

namespace attn {
namespace {

constexpr std::size_t working_memory = std::size_t{129} << 20; // OpenBLAS's for x86-64, where it is largest

/// Whether that much can be had; none of it is touched.
bool is_memory_left()
{
    void* volatile memory = std::malloc(working_memory); // volatile: a compiler may leave out what is not used
    std::free(memory);
    return memory != nullptr;
}

} // namespace

void expect_blas_memory()
{
    static std::atomic<bool> is_sure = false; // BLAS keeps what it has got
    if (!is_sure && !(is_sure = is_memory_left()))
        throw Error("a product of matrices needs 129 MiB of memory for BLAS to work in, and there is less; raise the limit "
                    "on memory, such as that of ulimit -v");
}

} // namespace attn
