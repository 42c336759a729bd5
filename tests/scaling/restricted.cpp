// How restricted attention grows with the sequence, measured: memory and processor time.
//
// 16384 tokens of 64 features, 64 neighbours on each side, have to fit into 64 MiB, the whole program with its queries,
// keys and values included. Full attention's time has to grow with about the second power of n, restricted attention's
// with about the first. Exit code 1 where that is not so.

#include "measure.hpp"

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/attention/restricted.hpp"
#include "attn/reference/ops/random.hpp"

#include <cmath>
#include <cstdio>
#include <functional>

#include <malloc.h>

using namespace attn;

namespace {

constexpr RestrictedOptions near{.neighbourhood = {.radius = 64}};

double run_16384_tokens()
{
    RandomNumbers numbers(15);
    const Matrix queries = numbers.matrix(16384, 64), keys = numbers.matrix(16384, 64),
                 values = numbers.matrix(16384, 64);
    const RestrictedAttention attention = restricted_attention(queries, keys, values, near);
    return attention.weights.shape(1) == 129 ? peak_mib() : NAN;
}

/// The power of n with which time grows from one length to another.
double exponent(std::size_t from, std::size_t to, const std::function<void(const Matrix&)>& attend)
{
    const auto time = [&](std::size_t n) {
        const Matrix x = RandomNumbers(n).matrix(n, 64);
        const double taken = seconds(7, [&] { attend(x); });
        std::printf("  n = %5zu: %8.2f ms\n", n, 1e3 * taken);
        return taken;
    };
    const double first = time(from);
    return std::log(time(to) / first) / std::log(static_cast<double>(to) / static_cast<double>(from));
}

} // namespace

int main()
{
    const bool fits = is_within("MiB, n = 16384, r = 64, d = 64", run_16384_tokens(), 24, 64); // 24 are the inputs

    // Only the work counts: memory that a run gives back, the next one takes again without asking the system.
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, -1);
    std::puts("restricted");
    const double local = exponent(2048, 16384, [](const Matrix& x) { restricted_attention(x, x, x, near); });
    std::puts("full");
    const double full = exponent(512, 2048, [](const Matrix& x) { scaled_dot_product_attention(x, x, x); });
    const bool is_linear = is_within("exponent of restricted attention", local, 0.7, 1.3);
    const bool is_quadratic = is_within("exponent of full attention", full, 1.6, 2.4);
    return fits && is_linear && is_quadratic ? 0 : 1;
}
