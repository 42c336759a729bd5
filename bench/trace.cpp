// What tracing costs: the same attention without trace calls, with a trace that nobody listens to, and recorded.
//
// The two to compare run in turn, many times, and what counts is the ratio of their shortest times: a shared machine
// is noisy, but never makes anything faster.

#include "attn/attention/dot_product.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/ops/softmax.hpp"
#include "attn/shape.hpp"
#include "attn/trace_io/recorder.hpp"

#include <benchmark/benchmark.h>

#include <cmath>

namespace {

using namespace attn;

/// scaled_dot_product_attention() as it would be written by someone who has never heard of a trace.
Attention untraced(const Matrix& queries, const Matrix& keys, const Matrix& values, const AttentionOptions& options)
{
    expect_agreement("untraced", "d_k", {"queries", queries, 1}, {"keys", keys, 1});
    expect_agreement("untraced", "m", {"keys", keys, 0}, {"values", values, 0});
    const Matrix scores = matmul(queries, transpose(keys));
    const Matrix scaled = scores * options.scale.value_or(1.0 / std::sqrt(static_cast<double>(keys.shape(1))));
    Matrix allowed = scaled;
    if (options.mask)
        allowed = Matrix(xt::where(*options.mask, scaled, -INFINITY));
    Matrix weights = softmax(allowed);
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
        benchmark::DoNotOptimize(untraced(in.queries, in.keys, in.values, {}));
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
    std::size_t steps = 0;
    for ([[maybe_unused]] auto _ : state) {
        Recorder recorder;
        benchmark::DoNotOptimize(scaled_dot_product_attention(in.queries, in.keys, in.values, {}, Trace(recorder)));
        steps += recorder.steps().size();
    }
    state.counters["steps/s"] = benchmark::Counter(static_cast<double>(steps), benchmark::Counter::kIsRate);
}

BENCHMARK(without_trace_calls);
BENCHMARK(with_nobody_listening);
BENCHMARK(recorded);

} // namespace

BENCHMARK_MAIN();
