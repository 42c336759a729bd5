#include "blas_memory.hpp"

#include "attn/core/error.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

// Whatever else is BLAS here has neither.
extern "C" {
[[gnu::weak]] void* blas_memory_alloc(int unused);
[[gnu::weak]] void blas_memory_free(void* memory);
}

namespace attn {
namespace {

constexpr std::size_t working_memory = std::size_t{129} << 20; // OpenBLAS's for x86-64, where it is largest
constexpr std::size_t most_products = 48;                      // at once; every build of OpenBLAS has room for 50

/// Whether there is memory for one more product beside so many, none of which is touched. Beyond the first, more is left for
/// the heaps of the threads that compute them.
bool is_memory_left_beside(std::size_t products)
{
    const std::size_t blocks = products == 0 ? 1 : products + 2;
    void* volatile memory = std::malloc(blocks * working_memory); // volatile: a compiler may leave out what is not used
    std::free(memory);
    return memory != nullptr;
}

} // namespace

void expect_blas_memory()
{
    static std::atomic<bool> is_sure = false;
    if (!is_sure)
        is_sure = take_blas_memory(1) == 1;
}

std::size_t take_blas_memory(std::size_t products)
{
    static std::mutex mutex;
    static std::size_t held = 0; // for so many BLAS has memory already
    const std::lock_guard lock(mutex);
    std::vector<void*> taken;
    while (taken.size() < std::min(products, most_products) &&
           (taken.size() < held || is_memory_left_beside(taken.size())))
        taken.push_back(blas_memory_alloc == nullptr ? nullptr : blas_memory_alloc(0));
    if (taken.empty())
        throw Error(
            "a product of matrices needs 129 MiB of memory for BLAS to work in, and there is less; raise the limit on "
            "memory, such as that of ulimit -v");
    if (blas_memory_free != nullptr)
        std::ranges::for_each(taken, blas_memory_free);
    held = std::max(held, taken.size());
    return taken.size();
}

} // namespace attn
