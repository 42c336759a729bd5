#pragma once

// What the programs that measure growth have in common.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>

namespace attn {

/// The most memory that this program has had at any time. Not getrusage's: that begins with the parent's.
inline double peak_mib()
{
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (word == "VmHWM:") {
            double kib = 0;
            status >> kib;
            return kib / 1024;
        }
    return NAN;
}

/// Processor time in seconds, of all threads together, the least of some runs.
inline double seconds(int runs, const std::function<void()>& work)
{
    double least = INFINITY;
    for (int run = 0; run < runs; ++run) {
        const std::clock_t begin = std::clock();
        work();
        least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return least;
}

/// Prints what was found, and says whether it is what was expected.
inline bool is_within(const char* what, double found, double least, double most)
{
    const bool is_so = found >= least && found <= most; // false for NaN
    std::printf("%s: %.2f, expected %.2f to %.2f: %s\n", what, found, least, most, is_so ? "so" : "NOT SO");
    return is_so;
}

} // namespace attn
