#include "worker.hpp"

#include "attn/core/error.hpp"
#include "attn/engines/fast/attention_backward.hpp"
#include "attn/reference/attention/dot_product.hpp"

namespace attn::bench {
namespace {

constexpr std::size_t heads = 8, features = 64; // no batch

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

double fast_attention(std::size_t n, bool is_forward, std::optional<Causal> causal)
{
    static FastTensors tensors(0);
    if (tensors.n != n)
        tensors = FastTensors(n);
    const fast::Scoring scoring{.causal = causal};
    if (is_forward)
        return seconds([&] { tensors.forward(scoring); });
    tensors.forward(scoring);
    return seconds([&] { tensors.backward(scoring); });
}

double reference(std::size_t n, std::optional<Causal> causal)
{
    const Matrix queries = RandomNumbers(1).matrix(n, features), keys = RandomNumbers(2).matrix(n, features),
                 values = RandomNumbers(3).matrix(n, features);
    AttentionOptions options;
    options.causal = causal;
    return seconds([&] {
        for (std::size_t head = 0; head < heads; ++head)
            scaled_dot_product_attention(queries, keys, values, options);
    });
}

} // namespace

double attention(const std::string& contender, std::istream& sizes)
{
    std::string pass;
    std::size_t n = 0;
    bool is_causal = false;
    sizes >> pass >> n >> is_causal;
    if (!sizes || (pass != "forward" && pass != "backward"))
        throw Error("bench_fast: attention takes forward or backward, a length, and 0 or 1 for causal");
    const auto causal = is_causal ? std::optional(Causal::bottom_right) : std::nullopt;
    if (contender == "fast")
        return fast_attention(n, pass == "forward", causal);
    if (contender == "reference" && pass == "forward")
        return reference(n, causal);
    throw Error("bench_fast: there is no " + pass + " pass of " + contender);
}

} // namespace attn::bench
