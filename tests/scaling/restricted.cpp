// How restricted attention grows with the sequence, measured: memory and processor time.
//
// 16384 tokens of 64 features, 64 neighbours on each side, have to fit into 64 MiB, the whole program with its queries,
// keys and values included. Full attention's time has to grow with about the second power of n, restricted attention's
// with about the first. Exit code 1 where that is not so.

#include "attn/attention/dot_product.hpp"
#include "attn/attention/restricted.hpp"
#include "attn/ops/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>

#include <malloc.h>

using namespace attn;

namespace {

constexpr RestrictedOptions near{.neighbourhood = {.radius = 64}};

/// The most memory that this program has had at any time. Not getrusage's: that begins with the parent's.
double peak_mib()
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

double run_16384_tokens()
{
    RandomNumbers numbers(15);
    const Matrix queries = numbers.matrix(16384, 64), keys = numbers.matrix(16384, 64),
                 values = numbers.matrix(16384, 64);
    const RestrictedAttention attention = restricted_attention(queries, keys, values, near);
    return attention.weights.shape(1) == 129 ? peak_mib() : NAN;
}

/// Processor time in seconds, the least of seven runs.
double seconds(const std::function<void()>& work)
{
    double least = INFINITY;
    for (int run = 0; run < 7; ++run) {
        const std::clock_t begin = std::clock();
        work();
        least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return least;
}

/// The power of n with which time grows from one length to another.
double exponent(std::size_t from, std::size_t to, const std::function<void(const Matrix&)>& attend)
{
    const auto time = [&](std::size_t n) {
        const Matrix x = RandomNumbers(n).matrix(n, 64);
        const double taken = seconds([&] { attend(x); });
        std::printf("  n = %5zu: %8.2f ms\n", n, 1e3 * taken);
        return taken;
    };
    const double first = time(from);
    return std::log(time(to) / first) / std::log(static_cast<double>(to) / static_cast<double>(from));
}

bool is_within(const char* what, double found, double least, double most)
{
    const bool is_so = found >= least && found <= most; // false for NaN
    std::printf("%s: %.2f, expected %.2f to %.2f: %s\n", what, found, least, most, is_so ? "so" : "NOT SO");
    return is_so;
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
