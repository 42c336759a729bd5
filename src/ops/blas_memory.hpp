#pragma once

#include <cstddef>

namespace attn {

/// OpenBLAS asks for its working memory at the first product, and where there is none it asks for ever. So whoever calls
/// BLAS calls this before.
/// @throws Error where there is too little memory
void expect_blas_memory();

/// Makes OpenBLAS take what it needs for several products at once, for each of which it asks in the same way; it keeps that.
/// Whoever calls BLAS from several threads calls this before.
/// @return for how many there is memory: 1 to `products`
/// @throws Error where there is too little for one
std::size_t take_blas_memory(std::size_t products);

} // namespace attn
