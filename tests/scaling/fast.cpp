// How fast::attention() and its gradients grow with the sequence, measured: memory and processor time.
//
//     scaling_fast [LONGEST]        n = 256, 512, ... up to LONGEST, 16384 unless given
//
// One head of 64 features, causal. The exponents are those of the straight line that fits the logarithms best. Memory
// is what the program has at most, with queries, keys, values and results: it has to grow with about the first power of
// n, and to stay below 200 MiB; time with about the second power. Exit code 1 where that is not so.

#include "measure.hpp"

#include "attn/engines/fast/attention_backward.hpp"

#include <cstdlib>
#include <vector>

#include <malloc.h>

using namespace attn;

namespace {

constexpr std::size_t features = 64;
const fast::Scoring causal{.causal = Causal::bottom_right};

/// What was measured, by length.
struct Measured {
    std::vector<double> n, seconds, mib;
};

/// The exponent e of the power c n^e that fits best, from the lengths at which the work outweighs what each call needs.
double exponent(const std::vector<double>& n, const std::vector<double>& found)
{
    constexpr double shortest = 1024;
    double count = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (std::size_t i = 0; i < n.size(); ++i) {
        if (n[i] < shortest)
            continue;
        const double log_n = std::log(n[i]), log_found = std::log(found[i]);
        count += 1, x += log_n, y += log_found, xx += log_n * log_n, xy += log_n * log_found;
    }
    return (count * xy - x * y) / (count * xx - x * x);
}

/// The peak of memory begins again from what the program has now.
void forget_peak()
{
    malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";
}

std::vector<float> numbers(std::size_t count)
{
    std::vector<float> all(count);
    for (std::size_t i = 0; i < count; ++i)
        all[i] = static_cast<float>(i * 2654435761U % 2048) / 1024 - 1;
    return all;
}

/// The tensors of one length.
struct Tensors {
    explicit Tensors(std::size_t length) : n(length), x(numbers(n * features)), context(x.size()), largest(n), sum(n) {}
    fast::HeadRows<float> rows(std::vector<float>& all) const
    {
        return fast::head_rows(all.data(), {1, 1, n, features});
    }
    void forward() { fast::attention(rows(x), rows(x), rows(x), causal, rows(context), {largest, sum}); }

    std::size_t n;
    std::vector<float> x, context, largest, sum;
};

/// @param begin  MiB of the program without tensors
void measure(Measured& all, std::size_t n, double begin, const std::function<void()>& work)
{
    all.n.push_back(static_cast<double>(n));
    all.seconds.push_back(seconds(n <= 8192 ? 3 : 1, work));
    all.mib.push_back(peak_mib() - begin);
}

void measure_length(Measured& forward, Measured& backward, std::size_t n)
{
    forget_peak();
    const double begin = peak_mib();
    Tensors tensors(n);
    measure(forward, n, begin, [&] { tensors.forward(); });
    std::vector<float> of_queries(tensors.x.size()), of_keys(of_queries), of_values(of_queries);
    forget_peak();
    measure(backward, n, begin, [&] {
        const fast::HeadRows<float> x = tensors.rows(tensors.x), context = tensors.rows(tensors.context);
        fast::attention_backward(x, x, x, causal, context, {tensors.largest, tensors.sum}, x, tensors.rows(of_queries),
                                 tensors.rows(of_keys), tensors.rows(of_values));
    });
    std::printf("n = %5zu: forward %9.2f ms, %6.1f MiB; backward %9.2f ms, %6.1f MiB; the program %6.1f MiB\n", n,
                1e3 * forward.seconds.back(), forward.mib.back(), 1e3 * backward.seconds.back(), backward.mib.back(),
                peak_mib());
}

bool grows_as_expected(const char* what, const Measured& all)
{
    std::printf("%s:\n", what);
    const bool time = is_within("  exponent of time", exponent(all.n, all.seconds), 1.7, 2.3);
    const bool memory = is_within("  exponent of memory", exponent(all.n, all.mib), 0.7, 1.2);
    return time && memory;
}

} // namespace

int main(int count, char** arguments)
{
    const std::size_t longest = count > 1 ? std::strtoul(arguments[1], nullptr, 10) : 16384;
    if (count > 2 || longest < 4096) {
        std::fputs("scaling_fast takes one number, the longest sequence: 4096 or more\n", stderr);
        return 2;
    }
    mallopt(M_MMAP_THRESHOLD, 1 << 16); // so that what a length had is given back before the next
    Measured forward, backward;
    for (std::size_t n = 256; n <= longest; n *= 2)
        measure_length(forward, backward, n);
    const bool grows = grows_as_expected("forward", forward) && grows_as_expected("backward", backward);
    const double most = std::max(*std::ranges::max_element(forward.mib), *std::ranges::max_element(backward.mib));
    return is_within("MiB at most", most, 1, 200) && grows ? 0 : 1;
}
