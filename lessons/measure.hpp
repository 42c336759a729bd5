#pragma once

// What the lessons that measure have in common.

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>

namespace attn {

/// Processor time in milliseconds, of all threads together, the least of three runs.
inline double milliseconds(const std::function<void()>& work)
{
    double least = INFINITY;
    for (int run = 0; run < 3; ++run) {
        const std::clock_t begin = std::clock();
        work();
        least = std::min(least, 1e3 * static_cast<double>(std::clock() - begin) /
                                    CLOCKS_PER_SEC);
    }
    return least;
}

} // namespace attn
