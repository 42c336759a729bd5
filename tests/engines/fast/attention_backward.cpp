#include "attn/engines/fast/attention_backward.hpp"

#include "interventions.hpp"
#include "drawn.hpp"
#include "caught.hpp"
#include "test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/core/shape.hpp"
#include "attn/formula/gradient.hpp"
#include "attn/formula/verify.hpp"

#include <omp.h>

#include <cmath>
#include <map>

using namespace attn;
using namespace attn::formula;
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

    void run(const Trace& trace = {}) { run_with(drawn.keys(), drawn.values(), drawn.scoring, grad_queries, 0, trace); }

    /// Of some keys and values, with the context, m and l of all.
    /// @param queries  is where the gradients of the queries go
    /// @param first    where the gradients of the keys and values begin
    void run_with(const fast::HeadRows<const float>& keys, const fast::HeadRows<const float>& values,
                  const fast::Scoring& scoring, std::vector<float>& queries, std::size_t first, const Trace& trace = {})
    {
        const auto [b, g, h, n, m, d_k, d_v] = sizes();
        fast::HeadRows<float> of_keys = fast::head_rows(grad_keys.data(), {b, g, m, d_k});
        fast::HeadRows<float> of_values = fast::head_rows(grad_values.data(), {b, g, m, d_v});
        of_keys = {of_keys.row(0, 0, first), keys.shape, of_keys.strides};
        of_values = {of_values.row(0, 0, first), values.shape, of_values.strides};
        fast::attention_backward(
            drawn.queries(), keys, values, scoring, fast::head_rows<const float>(drawn.context.data(), {b, h, n, d_v}),
            {drawn.largest, drawn.sum}, fast::head_rows<const float>(grad_context.data(), {b, h, n, d_v}),
            fast::head_rows(queries.data(), {b, h, n, d_k}), of_keys, of_values, trace);
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
        const auto expected = [&, g = g](std::string_view gradient) {
            return exact_of_group(all, gradient, i / g, i % g);
        };
        worst = std::max(worst, worst_error(matrix_of(all.grad_keys, i, m, d_k), expected("keys")));
        worst = std::max(worst, worst_error(matrix_of(all.grad_values, i, m, d_v), expected("values")));
    }
    return worst;
}

/// The keys and values [first, first + count) of all, with a mask and a bias that say what depends on positions.
void run_part(DrawnGradients& all, std::size_t first, std::size_t count, std::vector<float>& queries)
{
    const auto [b, g, h, n, m, d_k, d_v] = all.sizes();
    std::vector<float> bias;
    for (std::size_t head = 0; head < h; ++head)
        for (const double number : all.drawn.bias_of(head).values)
            bias.push_back(static_cast<float>(number));
    const auto mask = std::make_unique<bool[]>(b * n * m);
    for (std::size_t sequence = 0; sequence < b; ++sequence)
        std::ranges::copy(all.drawn.mask_of(sequence).values, mask.get() + sequence * n * m);
    const auto part = [&](fast::HeadRows<const float> rows) {
        rows.numbers += first * rows.strides[2];
        rows.shape[2] = count;
        return rows;
    };
    all.run_with(part(all.drawn.keys()), part(all.drawn.values()),
                 {.scale = all.drawn.scoring.scale,
                  .softcap = all.drawn.scoring.softcap,
                  .bias = {bias.data() + first, {0, n * m, m}},
                  .mask = {mask.get() + first, {n * m, 0, m}}},
                 queries, first);
}

Recording recorded(DrawnGradients& all)
{
    Recorder recorder;
    all.run(Trace(recorder));
    return recorder.recording();
}

Array& value_at(Recording& recording, const std::string& path)
{
    return std::ranges::find(recording.steps, path, &Step::path)->value;
}

/// Plants a mistake, and says which step is found wrong first.
std::string first_wrong(Recording recording, const std::string& path, double factor)
{
    for (double& number : value_at(recording, path).values)
        number *= factor;
    const Verification verification = verify(recording);
    const auto wrong =
        std::ranges::find_if(verification.checks, [](const StepCheck& check) { return !check.passed(); });
    return wrong == verification.checks.end() ? "none" : wrong->path;
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

TEST_CASE("the formulas of these tests give what attn::gradients() derives from that of attention", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const DrawnGradients all(seed);
        if (all.drawn.n * all.drawn.m > 1000)
            continue;
        CAPTURE(seed);
        const Given given = all.given(0, 0);
        Recording recording;
        for (const auto& [name, value] : given)
            if (name != "grad_context")
                recording.steps.push_back({name, "", {}, "", {}, value});
        const std::string formula = all.weights() + " @ values";
        const auto lookup = [&](std::string_view name) { return &given.find(name)->second; };
        recording.steps.push_back({"context", formula, {}, "", {}, evaluate(formula, lookup).value});
        Recording derived = gradients(recording, {.of = "context", .seed = given.at("grad_context")});
        for (const std::string gradient : {"queries", "keys", "values"}) {
            const Evaluated expected = evaluate(all.formula_of(gradient), lookup);
            const Array& found = value_at(derived, "grad." + gradient);
            for (std::size_t i = 0; i < found.size(); ++i)
                CHECK(std::abs(found.values[i] - expected.value.values[i]) <= 4 * expected.error[i] + 1e-300);
        }
    }
}

TEST_CASE("gradients of two parts of the keys, with m, l and context of all keys, are those of all keys", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        DrawnGradients all(seed);
        if (all.drawn.m < 2)
            continue;
        CAPTURE(seed);
        const std::size_t first_half = all.drawn.m / 2;
        std::vector<float> of_first(all.grad_queries.size());
        run_part(all, 0, first_half, of_first);
        run_part(all, first_half, all.drawn.m - first_half, all.grad_queries);
        for (std::size_t i = 0; i < of_first.size(); ++i)
            all.grad_queries[i] += of_first[i];
        CHECK(worst_of(all) <= 1);
    }
}

TEST_CASE("fast gradients have the same bits with any number of threads, and with a listener", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 25; ++seed) {
        CAPTURE(seed);
        DrawnGradients one(seed), four(seed), traced(seed);
        const int threads = omp_get_max_threads();
        omp_set_num_threads(1);
        one.run();
        omp_set_num_threads(4);
        four.run();
        omp_set_num_threads(threads);
        recorded(traced);
        for (const DrawnGradients* other : {&four, &traced}) {
            CHECK(one.grad_queries == other->grad_queries);
            CHECK(one.grad_keys == other->grad_keys);
            CHECK(one.grad_values == other->grad_values);
        }
    }
}

TEST_CASE("a query that can attend to nothing has gradients of zero, and adds none to others", "[fast]")
{
    DrawnGradients all(0);
    const auto [b, g, h, n, m, d_k, d_v] = all.sizes();
    const auto mask = std::make_unique<bool[]>(m);
    all.drawn.scoring = {.mask = {mask.get(), {0, 0, 0}}};
    all.drawn.run();
    all.run();
    const auto is_zero = [](float number) { return number == 0; };
    CHECK(std::ranges::all_of(all.grad_queries, is_zero));
    CHECK(std::ranges::all_of(all.grad_keys, is_zero));
    CHECK(std::ranges::all_of(all.grad_values, is_zero));
}

TEST_CASE("where a query attends to one key alone, the gradients of its score are exactly zero", "[fast]")
{
    std::uint64_t seed = 0;
    while (DrawnAttention(seed).m < 2 || DrawnAttention(seed).d_v < 17)
        ++seed;
    DrawnGradients all(seed);
    const auto mask = std::make_unique<bool[]>(all.drawn.m);
    mask[1] = true;
    all.drawn.scoring = {.mask = {mask.get(), {0, 0, 0}}};
    all.drawn.run();
    all.run();
    CHECK(std::ranges::all_of(all.grad_queries, [](float number) { return number == 0; }));
    CHECK(std::ranges::all_of(all.grad_keys, [](float number) { return number == 0; }));
    CHECK(std::ranges::any_of(all.grad_values, [](float number) { return number != 0; }));
}

TEST_CASE("each tile's weights and gradients follow from their formulas in float32", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        DrawnGradients all(seed);
        const Verification verification = verify(recorded(all));
        for (const StepCheck& check : verification.checks)
            if (!check.passed())
                FAIL("seed " << seed << ": " << check.message);
    }
}

TEST_CASE("a mistake in a gradient is found at its tile", "[fast]")
{
    std::uint64_t seed = 0; // of several tiles of queries and of keys
    while (DrawnAttention(seed).b != 1 || DrawnAttention(seed).n < 61 || DrawnAttention(seed).m < 129)
        ++seed;
    DrawnGradients all(seed);
    all.drawn.scoring = {.scale = 1e-3F}; // no mask: every tile is met; and small scores, so that all weights count
    all.drawn.run();
    const Recording recording = recorded(all);
    const std::string tile = "head.0.rows.1.tile.1.";
    for (const std::string step :
         {"weights", "grad_weights", "grad_scores", "partial_grad_queries", "partial_grad_keys", "partial_grad_values"})
        CHECK(first_wrong(recording, tile + step, 1.01) == tile + step);
    CHECK(first_wrong(recording, "head.0.rows.1.D", 1.01) == "head.0.rows.1.D");
    CHECK(first_wrong(recording, "grad_keys", 1.01) == "grad_keys");
    CHECK(first_wrong(recording, "grad_keys", 1) == "none");
}

TEST_CASE("fast gradients refuse a listener that replaces a step", "[fast]")
{
    DrawnGradients all(1);
    ReplaceStep zero("grad_keys", [](double) { return 0; });
    CHECK_THROWS_AS(all.run(Trace(zero)), std::logic_error);
}

TEST_CASE("fast gradients say which shapes disagree", "[fast]")
{
    std::vector<float> numbers(64);
    const auto rows = [&](std::size_t n, std::size_t d) {
        return fast::head_rows<float>(numbers.data(), {1, 1, n, d});
    };
    const auto refused = [&](std::size_t sums, const fast::HeadRows<float>& grad_context,
                             const fast::HeadRows<float>& grad_keys) {
        return caught<ShapeError>(
            [&] {
                const std::span<const float> of_rows(numbers.data(), sums);
                fast::attention_backward(rows(2, 3), rows(4, 3), rows(4, 5), {}, rows(2, 5), {of_rows, of_rows},
                                         grad_context, rows(2, 3), grad_keys, rows(4, 5));
            },
            "nothing");
    };
    CHECK(refused(2, rows(3, 5), rows(4, 3)) ==
          "fast::attention_backward: grad_context (1, 1, 3, 5) and context (1, 1, 2, 5) must agree in shape");
    CHECK(refused(2, rows(2, 5), rows(4, 2)) ==
          "fast::attention_backward: grad_keys (1, 1, 4, 2) and keys (1, 1, 4, 3) must agree in shape");
    CHECK(refused(0, rows(2, 5), rows(4, 3)) == "fast::attention_backward: sums of 0 numbers, expected b h n = 2");
}

TEST_CASE("fast gradients are as near to exact numbers as float32 can be in two thousand draws", "[.][draws]")
{
    double worst = 0;
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
        DrawnGradients all(seed);
        all.run();
        worst = std::max(worst, worst_of(all));
        CAPTURE(seed);
        REQUIRE(worst <= 1);
    }
    WARN("the largest error is " << worst << " of what float32 can be off by");
}
