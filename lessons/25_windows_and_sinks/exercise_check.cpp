// Compares exercise 25 with a causal mask, a window and the kept tokens, joined.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/attention/mask.hpp"
#include "attn/reference/ops/terms.hpp"

#include <tuple>

using namespace attn;

namespace {

void expect_mask(Exercise& exercise, std::size_t n, std::size_t m, std::size_t width,
                 std::size_t kept)
{
    Recorder run;
    const Trace trace(run);
    const Mask earlier = causal_mask(n, m, Causal::bottom_right, trace);
    const Term causal = named(earlier, "causal", trace);
    const Term keys = number(static_cast<double>(m), trace),
               queries = number(static_cast<double>(n), trace),
               before = keys - queries - (static_cast<double>(width) - 1);
    const Term key = arange(keys);
    const Term query = each_row(arange(queries));
    const Term window = trace("window[n, m]", key >= query + before);
    const Term first = trace("first[one, m]", in_front(key) < static_cast<double>(kept));
    std::ignore = trace("mask[n, m]", causal & (window | first));
    exercise.expect(
        {"my_window_mask", {{"n", n}, {"m", m}, {"width", width}, {"kept", kept}}}, run,
        "mask", [&] { return my_window_mask(n, m, width, kept); });
}

void check(Exercise& exercise)
{
    expect_mask(exercise, 6, 6, 3, 0);
    expect_mask(exercise, 6, 6, 3, 1);
    expect_mask(exercise, 2, 6, 3, 1);
    expect_mask(exercise, 3, 8, 2, 2);
    expect_mask(exercise, 4, 5, 2, 4);
}

} // namespace

int main(int argc, char** argv)
{
    return Exercise::run("25_windows_and_sinks", argc, argv, check);
}
