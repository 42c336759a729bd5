#include "attn/fast/attention_backward.hpp"

#include "drawn.hpp"
#include "test.hpp"

#include "attn/formula/gradient.hpp"
#include "attn/shape.hpp"

#include <omp.h>

#include <cmath>
#include <map>

using namespace attn;
using namespace attn::test;

namespace {

using Given = std::map<std::string, Array, std::less<>>;

/// A drawn attention, its gradients for a drawn gradient of the context, and what they should be.
class DrawnGradients {
public:
    explicit DrawnGradients(std::uint64_t seed)
        : drawn(seed),
          grad_context(drawn.numbers(drawn.context.size(), 1)),
          grad_queries(drawn.b * drawn.h * drawn.n * drawn.d_k, NAN),
          grad_keys(drawn.b * drawn.g * drawn.m * drawn.d_k, NAN),
          grad_values(drawn.b * drawn.g * drawn.m * drawn.d_v, NAN)
    {
        drawn.run();
    }

    void run(const Trace& trace = {})
    {
        const auto [b, g, h, n, m, d_k, d_v] = sizes();
        fast::attention_backward(
            drawn.queries(), drawn.keys(), drawn.values(), drawn.scoring,
            fast::head_rows<const float>(drawn.context.data(), {b, h, n, d_v}), {drawn.largest, drawn.sum},
            fast::head_rows<const float>(grad_context.data(), {b, h, n, d_v}),
            fast::head_rows(grad_queries.data(), {b, h, n, d_k}), fast::head_rows(grad_keys.data(), {b, g, m, d_k}),
            fast::head_rows(grad_values.data(), {b, g, m, d_v}), trace);
    }

    /// One head's arguments, as formulas call them.
    Given given(std::size_t sequence, std::size_t head) const
    {
        return {{"queries", drawn.queries_of(sequence, head)},
                {"keys", drawn.keys_of(sequence, head)},
                {"values", drawn.values_of(sequence, head)},
                {"bias", drawn.bias_of(head)},
                {"mask", drawn.mask_of(sequence)},
                {"grad_context", matrix_of(grad_context, sequence * drawn.h + head, drawn.n, drawn.d_v)}};
    }

    std::string weights() const { return "softmax(where(mask, " + drawn.scores_formula() + ", -inf))"; }

    /// The gradient of the products of queries and keys.
    std::string grad_scores() const
    {
        const float scale = drawn.scoring.scale.value_or(1 / std::sqrt(static_cast<float>(drawn.d_k)));
        std::string factor = exact_text(scale);
        if (drawn.scoring.softcap)
            factor += " * (1 - tanh(queries @ keys.T * " + exact_text(scale) + " / " +
                      exact_text(*drawn.scoring.softcap) + ")**2)";
        return "(" + weights() + " * (grad_context @ values.T - sum(grad_context * (" + weights() +
               " @ values), axis=-1)[:, None]) * " + factor + ")";
    }

    std::string formula_of(std::string_view gradient) const
    {
        if (gradient == "queries")
            return grad_scores() + " @ keys";
        return gradient == "keys" ? grad_scores() + ".T @ queries" : weights() + ".T @ grad_context";
    }

    std::array<std::size_t, 7> sizes() const
    {
        return {drawn.b, drawn.g, drawn.h, drawn.n, drawn.m, drawn.d_k, drawn.d_v};
    }

    DrawnAttention drawn;
    std::vector<float> grad_context, grad_queries, grad_keys, grad_values;
};

/// What plain loops in double make of one head's gradient, and how far float32 can be off.
Evaluated exact(const DrawnGradients& all, std::string_view gradient, std::size_t sequence, std::size_t head)
{
    const Given given = all.given(sequence, head);
    return evaluate(
        all.formula_of(gradient), [&](std::string_view name) { return &given.find(name)->second; }, in_float32);
}

/// The same of all query heads that a key/value head serves: sums.
Evaluated exact_of_group(const DrawnGradients& all, std::string_view gradient, std::size_t sequence, std::size_t group)
{
    const std::size_t heads = all.drawn.h / all.drawn.g;
    Evaluated total = exact(all, gradient, sequence, group * heads);
    for (std::size_t head = group * heads + 1; head < (group + 1) * heads; ++head) {
        const Evaluated next = exact(all, gradient, sequence, head);
        for (std::size_t i = 0; i < next.value.size(); ++i) {
            total.value.values[i] += next.value.values[i];
            total.error[i] += next.error[i] + in_float32.roundoff * std::abs(total.value.values[i]);
        }
    }
    return total;
}

double worst_of(const DrawnGradients& all)
{
    const auto [b, g, h, n, m, d_k, d_v] = all.sizes();
    double worst = 0;
    for (std::size_t i = 0; i < b * h; ++i)
        worst =
            std::max(worst, worst_error(matrix_of(all.grad_queries, i, n, d_k), exact(all, "queries", i / h, i % h)));
    for (std::size_t i = 0; i < b * g; ++i) {
        const auto expected = [&](std::string_view gradient) { return exact_of_group(all, gradient, i / g, i % g); };
        worst = std::max(worst, worst_error(matrix_of(all.grad_keys, i, m, d_k), expected("keys")));
        worst = std::max(worst, worst_error(matrix_of(all.grad_values, i, m, d_v), expected("values")));
    }
    return worst;
}

} // namespace

TEST_CASE("fast gradients are as near to exact numbers as float32 can be, for any mask, bias and sizes", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        CAPTURE(seed);
        DrawnGradients all(seed);
        all.run();
        CHECK(worst_of(all) <= 1);
    }
}
