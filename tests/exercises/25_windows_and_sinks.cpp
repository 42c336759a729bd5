#include "25_windows_and_sinks/exercise.hpp"

using namespace attn;

Mask my_window_mask(std::size_t n, std::size_t m, std::size_t width, std::size_t kept)
{
    Mask mask(Mask::shape_type{n, m}, false);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t key = 0; key < m; ++key) {
            const std::size_t own = m - n + i;
            const bool is_near = key + width > own, is_first = key < kept;
            mask(i, key) = key <= own && (is_near || is_first);
        }
    return mask;
}
