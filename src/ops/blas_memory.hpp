#pragma once

namespace attn {

/// OpenBLAS asks for its working memory at the first product, and where there is none it asks for ever. So whoever calls
/// BLAS calls this before.
/// @throws Error where there is too little memory
void expect_blas_memory();

} // namespace attn
