#pragma once

#include <cstddef>

namespace attn {

/// OpenBLAS asks for its working memory at the first product that is not small, and where there is none it asks for ever. So
/// whoever calls BLAS calls this before, and OpenBLAS takes that memory here. It keeps it.
/// @throws Error where there is too little
void expect_blas_memory();

/// The same for several products at once, for each of which OpenBLAS asks: whoever calls BLAS from several threads calls this
/// before.
/// @param products  at least 1
/// @return for how many there is memory: 1 to `products`
/// @throws Error where there is too little for one
std::size_t take_blas_memory(std::size_t products);

} // namespace attn
