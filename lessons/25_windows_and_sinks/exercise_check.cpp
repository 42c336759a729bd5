// Compares exercise 25 with a causal mask, a window and the kept tokens, joined.

#include "exercise.hpp"

#include "../exercise_check.hpp"

#include "attn/reference/attention/mask.hpp"

#include <tuple>

using namespace attn;

namespace {

void expect_mask(Exercise& exercise, std::size_t n, std::size_t m, std::size_t width,
                 std::size_t kept)
{
    Recorder run;
    const Trace trace(run);
    const std::string keys = "arange(" + std::to_string(m) + ")",
                      own = "arange(" + std::to_string(n) + ")[:, None] + (" +
                            std::to_string(m) + " - " + std::to_string(n);
    const Integers key = xt::arange<std::int64_t>(0, static_cast<std::int64_t>(m)),
                   query = xt::arange<std::int64_t>(0, static_cast<std::int64_t>(n));
    const IntegerMatrix place =
        xt::view(query, xt::all(), xt::newaxis()) + static_cast<std::int64_t>(m - n);
    const auto before = static_cast<std::int64_t>(width) - 1;
    const Mask causal = causal_mask(n, m, Causal::bottom_right, trace);
    const Mask window =
        trace("window[n, m]", keys + " >= " + own + " - " + std::to_string(before) + ")",
              Mask(key >= place - before));
    const Mask first = trace(
        "first[one, m]", keys + "[None] < " + std::to_string(kept),
        Mask(xt::view(key, xt::newaxis(), xt::all()) < static_cast<std::int64_t>(kept)));
    std::ignore = trace("mask[n, m]", "causal & (window | first)",
                        Mask(causal && (window || first)));
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
