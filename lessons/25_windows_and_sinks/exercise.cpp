// Exercise 25: the mask of a window with sinks, beside a cache.
//
// Write the function that exercise.hpp describes. It is checked by
//
//     script/exercise 25

#include "exercise.hpp"

using namespace attn;

Mask my_window_mask(std::size_t n, std::size_t m, std::size_t /*width*/,
                    std::size_t /*kept*/)
{
    Mask mask(Mask::shape_type{n, m}, false);
    // To do. At which place among the keys does query i stand? Which key is the first of
    // its window? Can it attend to a kept token that comes after it?
    return mask;
}
