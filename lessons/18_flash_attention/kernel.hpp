#pragma once

// The library's kernel in float32, and the tiles that a causal mask spares it.

#include "../lesson.hpp"

#include "attn/core/recorder.hpp"
#include "attn/engines/fast/attention.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/ops/random.hpp"
#include "attn/reference/ops/reduce.hpp"

#include <algorithm>
#include <vector>

namespace attn {

inline std::vector<float> in_float32(const Matrix& x) { return {x.begin(), x.end()}; }

/// The tiles of scores that a run of the kernel met.
struct Met {
    std::size_t count = 0, rows = 0, columns = 0; ///< of the largest tile
};

inline Met tiles_met(const Recording& recording)
{
    Met met;
    for (const Step& step : recording.steps)
        if (step.path.ends_with(".scores")) {
            ++met.count;
            met.rows = std::max(met.rows, step.value.shape[0]);
            met.columns = std::max(met.columns, step.value.shape[1]);
        }
    return met;
}

/// The kernel's numbers are in float32 and differ a little between machines, so they are
/// a trace of their own; the lesson's has the counts.
inline void run_kernel(Lesson& lesson)
{
    constexpr std::size_t n = 300, d = 16;
    RandomNumbers numbers(18);
    const Matrix queries = numbers.matrix(n, d), keys = numbers.matrix(n, d),
                 values = numbers.matrix(n, d);
    //! [kernel]
    const std::vector<float> q = in_float32(queries), k = in_float32(keys),
                             v = in_float32(values);
    std::vector<float> context(n * d);
    const auto head = [&](const std::vector<float>& all) {
        return fast::head_rows(all.data(), {1, 1, n, d}); // (b, h, n, d)
    };
    Recorder recorder;
    fast::attention(head(q), head(k), head(v), {.causal = Causal::bottom_right},
                    fast::head_rows(context.data(), {1, 1, n, d}), {}, Trace(recorder));
    //! [kernel]

    const Met met = tiles_met(recorder.recording());
    const Trace trace = lesson.trace().scope("kernel");
    const auto count = [&](std::string_view name, std::string_view formula,
                           std::size_t number) {
        return trace(name, formula, static_cast<std::int64_t>(number));
    };
    const std::size_t down = (n + met.rows - 1) / met.rows,
                      across = (n + met.columns - 1) / met.columns;
    const std::int64_t tokens = count("n", "", n);
    const std::int64_t rows = count("rows", "", met.rows);
    const std::int64_t columns = count("columns", "", met.columns);
    const std::int64_t all = count("tiles", "", down * across);
    const std::int64_t there = count("met", "", met.count);
    const std::int64_t skipped = trace("skipped", "tiles - met", all - there);
    std::vector<double> counts;
    for (const std::int64_t number : {tokens, rows, columns, all, there, skipped})
        counts.push_back(static_cast<double>(number));
    lesson.table(
        {"tokens", "queries per tile", "keys per tile", "tiles", "met", "skipped"},
        {counts});

    if (lesson.is_altered())
        return; // the kernel is not, and verifying takes a while
    //! [verified]
    lesson.expect("every step of the kernel follows from its formula, in float32",
                  formula::verify(recorder.recording()).passed());
    //! [verified]
    const Matrix exact = scaled_dot_product_attention(queries, keys, values,
                                                      {.causal = Causal::bottom_right})
                             .context;
    double off = 0;
    for (std::size_t i = 0; i < context.size(); ++i)
        off = std::max(off, std::abs(context[i] - exact.data()[i]));
    lesson.expect("its context differs from the reference in double by less than 1e-6",
                  off < 1e-6);
}

} // namespace attn
