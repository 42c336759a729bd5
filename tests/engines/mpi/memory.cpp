// The library's own memory, counted where C++ allocates it: the kernels' aligned buffers are not among it.
#ifndef __SANITIZE_ADDRESS__ // which has an operator new of its own
#include "attn/engines/mpi/ring_attention.hpp"
#include "attn/engines/mpi/ulysses_attention.hpp"

#include "test.hpp"
#include "whole.hpp"

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

namespace {

std::atomic<std::size_t> held = 0, most_held = 0;
constexpr std::size_t header = alignof(std::max_align_t);

} // namespace

void* operator new(std::size_t size)
{
    auto* const begin = static_cast<std::size_t*>(std::malloc(size + header));
    if (begin == nullptr)
        throw std::bad_alloc();
    *begin = size;
    const std::size_t now = held += size;
    if (now > most_held)
        most_held = now;
    return reinterpret_cast<char*>(begin) + header;
}

void operator delete(void* numbers) noexcept
{
    if (numbers == nullptr)
        return;
    char* const begin = static_cast<char*>(numbers) - header;
    held -= *reinterpret_cast<std::size_t*>(begin);
    std::free(begin);
}

void operator delete(void* numbers, std::size_t) noexcept { operator delete(numbers); }

using namespace attn;
using namespace attn::test;

namespace {

/// The most bytes that a call holds beyond what was there before.
std::size_t most_of(const std::function<void()>& call)
{
    const std::size_t before = held;
    most_held = before;
    call();
    return most_held - before;
}

/// Beside numbers there are lists of chunks, names of facts, requests.
constexpr std::size_t small = 20000;

} // namespace

TEST_CASE("ring and Ulysses attention hold as many bytes as predicted", "[mpi][memory]")
{
    const std::size_t n = 640;
    for (const mpi::Layout& layout : {mpi::contiguous_layout(n, all_ranks()), mpi::zigzag_layout(n, all_ranks())}) {
        const Whole whole(n, {.shape = {1, 64, 2, 16, 12}, .is_causal = true});
        Shard shard(whole, layout);
        const std::size_t around = most_of([&] {
            mpi::ring_attention(shard.q(), shard.k(), shard.v(), layout, shard.scoring, shard.o(), shard.sums(),
                                MPI_COMM_WORLD);
        });
        const std::size_t predicted = mpi::predicted_ring_memory(layout, whole.shape, this_rank());
        CHECK(around >= predicted);
        CHECK(around <= predicted + small);

        const std::size_t by_heads = most_of([&] {
            mpi::ulysses_attention(shard.q(), shard.k(), shard.v(), layout, whole.scoring(), shard.o(), MPI_COMM_WORLD);
        });
        const std::size_t of_heads = mpi::predicted_ulysses_memory(layout, whole.shape, this_rank());
        CHECK(by_heads >= of_heads);
        CHECK(by_heads <= of_heads + small);
    }
}
#endif
