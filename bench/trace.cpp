// What tracing costs: the same attention without trace calls, with a trace that nobody listens to, and recorded.
//
// script/bench runs them in turn, many times, and prints the ratio of their medians.

#include "attn/core/recorder.hpp"
#include "attn/core/shape.hpp"
#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <benchmark/benchmark.h>

#include <cmath>

namespace {

using namespace attn;

/// scaled_dot_product_attention() as it would be written by someone who has never heard of a trace.
Attention untraced(const Matrix& queries, const Matrix& keys, const Matrix& values, const OptionalMask& mask = {},
                   const AttentionOptions& options = {})
{
    expect_agreement("untraced", "d_k", {"queries", queries, 1}, {"keys", keys, 1});
    expect_agreement("untraced", "m", {"keys", keys, 0}, {"values", values, 0});
    Matrix scores = matmul(queries, transpose(keys));
    scores *= options.scale.value_or(1.0 / std::sqrt(static_cast<double>(keys.shape(1))));
    if (mask)
        scores = apply_mask(*mask, std::move(scores), -INFINITY);
    Matrix weights = softmax(std::move(scores));
    Matrix context = matmul(weights, values);
    return {std::move(context), std::move(weights)};
}

/// n = m = 64 tokens, d = 64 features, numbers between -1 and 1.
Matrix tokens(double seed)
{
    Matrix matrix = xt::zeros<double>({64, 64});
    double angle = seed;
    for (double& number : matrix)
        number = std::sin(angle += 1.7);
    return matrix;
}

struct Inputs {
    Matrix queries = tokens(1), keys = tokens(2), values = tokens(3);
};

void without_trace_calls(benchmark::State& state)
{
    const Inputs in;
    for ([[maybe_unused]] auto _ : state)
        benchmark::DoNotOptimize(untraced(in.queries, in.keys, in.values));
}

void with_nobody_listening(benchmark::State& state)
{
    const Inputs in;
    for ([[maybe_unused]] auto _ : state)
        benchmark::DoNotOptimize(scaled_dot_product_attention(in.queries, in.keys, in.values));
}

void recorded(benchmark::State& state)
{
    const Inputs in;
    for ([[maybe_unused]] auto _ : state) {
        Recorder recorder;
        benchmark::DoNotOptimize(scaled_dot_product_attention(in.queries, in.keys, in.values, {}, Trace(recorder)));
    }
}

/// One step of 64 by 64 numbers by itself: what tracing adds for each.
void one_recorded_step(benchmark::State& state)
{
    const Matrix scores = tokens(1);
    for ([[maybe_unused]] auto _ : state) {
        Recorder recorder;
        benchmark::DoNotOptimize(Trace(recorder)("scores[n, m]", "queries @ keys.T", scores));
    }
}

BENCHMARK(without_trace_calls);
BENCHMARK(with_nobody_listening);
BENCHMARK(recorded);
BENCHMARK(one_recorded_step);

} // namespace

BENCHMARK_MAIN();
