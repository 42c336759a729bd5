#include "blas_memory.hpp"

#include "attn/error.hpp"

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

/// Whether that much can be had; none of it is touched.
bool is_memory_left(std::size_t bytes)
{
    void* volatile memory = std::malloc(bytes); // volatile: a compiler may leave out what is not used
    std::free(memory);
    return memory != nullptr;
}

} // namespace

void expect_blas_memory()
{
    static std::atomic<bool> is_sure = false; // BLAS keeps what it has got
    if (!is_sure && !(is_sure = is_memory_left(working_memory)))
        throw Error(
            "a product of matrices needs 129 MiB of memory for BLAS to work in, and there is less; raise the limit "
            "on memory, such as that of ulimit -v");
}

std::size_t take_blas_memory(std::size_t products)
{
    expect_blas_memory();
    if (blas_memory_alloc == nullptr || blas_memory_free == nullptr)
        return products;
    static std::mutex mutex;
    static std::size_t held = 0; // for so many BLAS has memory already
    const std::lock_guard lock(mutex);
    // Beyond the first, as much is left for the rest of the program.
    const auto can_take = [](std::size_t taken) {
        return taken < held || is_memory_left(taken == 0 ? working_memory : 2 * working_memory);
    };
    std::vector<void*> taken;
    while (taken.size() < std::min(products, most_products) && can_take(taken.size()))
        taken.push_back(blas_memory_alloc(0));
    std::ranges::for_each(taken, blas_memory_free);
    held = std::max(held, taken.size());
    return std::max(taken.size(), std::size_t{1});
}

} // namespace attn
