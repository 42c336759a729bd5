#pragma once

// Time and memory of the reference and of fast::attention on this machine, by length.

#include "../lesson.hpp"
#include "../measure.hpp"
#include "../memory.hpp"
#include "kernel.hpp"

#include <cmath>
#include <limits>
#include <tuple>

namespace attn {

/// Lengths, and what one head of 64 features takes, causal.
struct Measured {
    std::vector<double> n, reference_ms, fast_ms, reference_mib, fast_mib;
};

inline void measure_length(Measured& all, std::size_t n)
{
    constexpr std::size_t d = 64, longest_reference = 4096;
    //! [measure]
    const Matrix x = RandomNumbers(n).matrix(n, d);
    const std::vector<float> floats = in_float32(x);
    std::vector<float> context(n * d);
    const auto rows = fast::head_rows(floats.data(), {1, 1, n, d});
    const auto by_tiles = [&] {
        fast::attention(rows, rows, rows, {.causal = Causal::bottom_right},
                        fast::head_rows(context.data(), {1, 1, n, d}));
    };
    const auto whole = [&] {
        scaled_dot_product_attention(x, x, x, {.causal = Causal::bottom_right});
    };
    //! [measure]
    const bool has_reference = n <= longest_reference;
    all.n.push_back(static_cast<double>(n));
    all.reference_mib.push_back(has_reference ? mebibytes(whole) : NAN);
    all.fast_mib.push_back(mebibytes(by_tiles));
    all.reference_ms.push_back(has_reference ? milliseconds(whole) : NAN);
    all.fast_ms.push_back(milliseconds(by_tiles));
}

/// The power of n with which something grows, from the first length to the last that was
/// measured.
inline double exponent(const Measured& all, const std::vector<double>& what)
{
    std::size_t last = what.size() - 1;
    while (std::isnan(what[last]))
        --last;
    return std::log(what[last] / what[0]) / std::log(all.n[last] / all.n[0]);
}

/// From 256 tokens to so many, twice as many each time.
inline void measure(Lesson& lesson, std::size_t longest)
{
    Measured all;
    for (std::size_t n = 256; n <= longest; n *= 2)
        measure_length(all, n);
    if (all.n.empty())
        throw Error("--up-to is " + std::to_string(longest) + ", expected 256 or more");

    std::vector<std::vector<double>> rows;
    for (std::size_t i = 0; i < all.n.size(); ++i)
        rows.push_back({all.n[i], all.reference_ms[i], all.fast_ms[i],
                        all.reference_mib[i], all.fast_mib[i]});
    lesson.table({"n", "milliseconds: reference", "fast", "MiB: reference", "fast"},
                 rows);

    const Trace trace = lesson.trace().scope("measured");
    const auto keep = [&](std::string_view name, const std::vector<double>& numbers) {
        std::ignore = trace(name, "", from_array<Vector>({{numbers.size()}, numbers}));
    };
    keep("n[i]", all.n);
    keep("reference_ms[i]", all.reference_ms);
    keep("fast_ms[i]", all.fast_ms);
    keep("reference_mib[i]", all.reference_mib);
    keep("fast_mib[i]", all.fast_mib);
    const auto grows = [&](std::string_view name, const std::vector<double>& what) {
        return trace(name, "", exponent(all, what));
    };
    const double reference = grows("reference_exponent", all.reference_mib);
    const double fast = grows("fast_exponent", all.fast_mib);
    const double reference_time = grows("reference_time_exponent", all.reference_ms);
    const double fast_time = grows("fast_time_exponent", all.fast_ms);
    if (all.n.size() > 1)
        lesson.table(
            {"exponent of n, time: reference", "fast", "memory: reference", "fast"},
            {{reference_time, fast_time, reference, fast}});
}

} // namespace attn
