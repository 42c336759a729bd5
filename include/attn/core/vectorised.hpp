#pragma once

/// A function that the compiler also makes for processors with wider vectors; which one is called is found out where it
/// runs. It adds in the same order, so its numbers are the same. Sanitizers can't stand such functions, and Clang makes none of
/// templates.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define ATTN_VECTORISED [[gnu::target_clones("avx2", "default")]]
#else
#define ATTN_VECTORISED
#endif
