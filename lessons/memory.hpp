#pragma once

// Counts the memory that this program asks `operator new` for. Included by one
// file of a program, since a program can replace these functions once only.

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <new>

#include <malloc.h>

namespace attn {

/// Bytes at work now, and the most at any time since it was last set.
struct Memory {
    static inline std::atomic<std::size_t> now = 0, most = 0;

    static void* counted(void* block)
    {
        if (block == nullptr)
            throw std::bad_alloc();
        const std::size_t all = now += malloc_usable_size(block);
        std::size_t before = most;
        while (before < all && !most.compare_exchange_weak(before, all)) {
        }
        return block;
    }

    static void release(void* block)
    {
        now -= block == nullptr ? 0 : malloc_usable_size(block);
        std::free(block);
    }
};

/// The most memory that some work has at a time beside what was there before, in MiB.
inline double mebibytes(const std::function<void()>& work)
{
    const std::size_t before = Memory::now;
    Memory::most = before;
    work();
    return static_cast<double>(Memory::most - before) / (1 << 20);
}

} // namespace attn

// Arrays have functions of their own, which a sanitizer replaces, too. Where some of these
// were inlined and others not, compilers would warn that they do not belong together.
[[gnu::noinline]] void* operator new(std::size_t size)
{
    return attn::Memory::counted(std::malloc(size == 0 ? 1 : size));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment)
{
    const auto to = static_cast<std::size_t>(alignment);
    return attn::Memory::counted(std::aligned_alloc(to, (size + to) / to * to));
}
[[gnu::noinline]] void* operator new[](std::size_t size) { return operator new(size); }
[[gnu::noinline]] void* operator new[](std::size_t size, std::align_val_t alignment)
{
    return operator new(size, alignment);
}

[[gnu::noinline]] void operator delete(void* block) noexcept
{
    attn::Memory::release(block);
}
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept
{
    attn::Memory::release(block);
}
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept
{
    attn::Memory::release(block);
}
[[gnu::noinline]] void operator delete(void* block, std::size_t,
                                       std::align_val_t) noexcept
{
    attn::Memory::release(block);
}
[[gnu::noinline]] void operator delete[](void* block) noexcept
{
    attn::Memory::release(block);
}
[[gnu::noinline]] void operator delete[](void* block, std::size_t) noexcept
{
    attn::Memory::release(block);
}
[[gnu::noinline]] void operator delete[](void* block, std::align_val_t) noexcept
{
    attn::Memory::release(block);
}
[[gnu::noinline]] void operator delete[](void* block, std::size_t,
                                         std::align_val_t) noexcept
{
    attn::Memory::release(block);
}
