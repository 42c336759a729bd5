#pragma once

// The time that full and restricted attention take on this machine.

#include "../lesson.hpp"
#include "../measure.hpp"

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/attention/restricted.hpp"
#include "attn/reference/ops/random.hpp"

#include <cmath>

namespace attn {

/// Times both for n = 256 to 16384, with 64 features and 64 neighbours on each side. Full
/// attention stops at 2048: at 16384 its scores alone are 2 GiB.
inline void measure(Lesson& lesson)
{
    std::vector<std::vector<double>> rows;
    for (std::size_t n = 256; n <= 16384; n *= 2) {
        //! [measure]
        const Matrix x = RandomNumbers(n).matrix(n, 64);
        const double full =
            n > 2048 ? NAN : milliseconds([&] { scaled_dot_product_attention(x, x, x); });
        const RestrictedOptions near{.neighbourhood = {.radius = 64}};
        rows.push_back({static_cast<double>(n), full,
                        milliseconds([&] { restricted_attention(x, x, x, near); })});
        //! [measure]
    }
    lesson.table({"n", "milliseconds: full", "local"}, rows);
    const auto exponent = [&](std::size_t from, std::size_t to, std::size_t column) {
        return std::log(rows[to][column] / rows[from][column]) /
               std::log(rows[to][0] / rows[from][0]);
    };
    lesson.table({"exponent of n: full, 512 to 2048", "local, 2048 to 16384"},
                 {{exponent(1, 3, 1), exponent(3, 6, 2)}});
}

} // namespace attn
