// Runs attention once per line that it reads, and answers with the seconds that it took: a worker of bench/fast.py.
//
//     bench_attention CONTENDER PASS N CAUSAL      as lines: fast forward 2048 1
//
// CONTENDER is fast, reference or sgemm; PASS is forward or backward. 8 heads of 64 features, no batch. Threads are
// those of OMP_NUM_THREADS and OPENBLAS_NUM_THREADS. sgemm multiplies two matrices of 2048 by 2048 numbers, whatever
// the rest says.
#include "attn/attention/dot_product.hpp"
#include "attn/error.hpp"
#include "attn/fast/attention_backward.hpp"
#include "attn/ops/random.hpp"

#include <chrono>
#include <functional>
#include <iostream>
#include <string>

#include <cblas.h>

using namespace attn;

namespace {

constexpr std::size_t heads = 8, features = 64, sgemm_size = 2048;

struct Case {
    std::string contender, pass;
    std::size_t n = 0;
    bool is_causal = false;
};

std::vector<float> random_floats(std::size_t count, unsigned seed)
{
    const Matrix numbers = RandomNumbers(seed).matrix(1, count);
    return {numbers.begin(), numbers.end()};
}

/// Queries, keys, values and what attention makes of them, for one length.
struct FastTensors {
    explicit FastTensors(std::size_t length)
        : n(length),
          queries(random_floats(heads * n * features, 1)),
          keys(random_floats(queries.size(), 2)),
          values(random_floats(queries.size(), 3)),
          grad_context(random_floats(queries.size(), 4)),
          context(queries.size()),
          grad_queries(queries.size()),
          grad_keys(queries.size()),
          grad_values(queries.size()),
          largest(heads * n),
          sum(heads * n)
    {
    }
    fast::HeadRows<float> rows(std::vector<float>& all) { return fast::head_rows(all.data(), {1, heads, n, features}); }

    void forward(const fast::Scoring& scoring)
    {
        fast::attention(rows(queries), rows(keys), rows(values), scoring, rows(context), {largest, sum});
    }
    void backward(const fast::Scoring& scoring)
    {
        fast::attention_backward(rows(queries), rows(keys), rows(values), scoring, rows(context), {largest, sum},
                                 rows(grad_context), rows(grad_queries), rows(grad_keys), rows(grad_values));
    }

    std::size_t n;
    std::vector<float> queries, keys, values, grad_context, context, grad_queries, grad_keys, grad_values, largest, sum;
};

double seconds(const std::function<void()>& work)
{
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double time_fast(const Case& given)
{
    static FastTensors tensors(0);
    if (tensors.n != given.n)
        tensors = FastTensors(given.n);
    fast::Scoring scoring;
    if (given.is_causal)
        scoring.causal = Causal::bottom_right;
    if (given.pass == "forward")
        return seconds([&] { tensors.forward(scoring); });
    tensors.forward(scoring);
    return seconds([&] { tensors.backward(scoring); });
}

double time_reference(const Case& given)
{
    const Matrix queries = RandomNumbers(1).matrix(given.n, features),
                 keys = RandomNumbers(2).matrix(given.n, features), values = RandomNumbers(3).matrix(given.n, features);
    AttentionOptions options;
    if (given.is_causal)
        options.causal = Causal::bottom_right;
    return seconds([&] {
        for (std::size_t head = 0; head < heads; ++head)
            scaled_dot_product_attention(queries, keys, values, {}, {}, options);
    });
}

double time_sgemm()
{
    static const std::vector<float> left = random_floats(sgemm_size * sgemm_size, 5), right = left;
    static std::vector<float> product(left.size());
    constexpr int size = sgemm_size;
    return seconds([&] {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1, left.data(), size, right.data(),
                    size, 0, product.data(), size);
    });
}

double time(const Case& given)
{
    if (given.pass != "forward" && given.pass != "backward")
        throw Error("bench_attention: " + given.pass + " is neither forward nor backward");
    if (given.contender == "sgemm")
        return time_sgemm();
    if (given.contender == "fast")
        return time_fast(given);
    if (given.contender == "reference" && given.pass == "forward")
        return time_reference(given);
    throw Error("bench_attention: there is no " + given.pass + " pass of " + given.contender);
}

} // namespace

int main()
{
    try {
        for (Case given; std::cin >> given.contender >> given.pass >> given.n >> given.is_causal;)
            std::cout << time(given) << std::endl;
    } catch (const Error& error) {
        std::cerr << error.what() << '\n';
        return 2;
    }
}
