#include "attn/engines/fast/attention.hpp"
#include "attn/engines/fast/attention_backward.hpp"
#include "attn/engines/fast/merge.hpp"

#include "interventions.hpp"
#include "drawn.hpp"
#include "caught.hpp"
#include "test.hpp"

#include "attn/core/recorder.hpp"
#include "attn/core/shape.hpp"
#include "attn/formula/evaluate.hpp"
#include "attn/formula/verify.hpp"

#include <omp.h>

#include <cmath>
#include <map>

using namespace attn;
using namespace attn::formula;
using namespace attn::test;

namespace {

/// What plain loops in double make of one head, and how far float32 can be off.
Evaluated exact(const DrawnAttention& drawn, std::size_t sequence, std::size_t head)
{
    const std::map<std::string, Array, std::less<>> given{{"queries", drawn.queries_of(sequence, head)},
                                                          {"keys", drawn.keys_of(sequence, head)},
                                                          {"values", drawn.values_of(sequence, head)},
                                                          {"bias", drawn.bias_of(head)},
                                                          {"mask", drawn.mask_of(sequence)}};
    return evaluate(
        "softmax(where(mask, " + drawn.scores_formula() + ", -inf)) @ values",
        [&](std::string_view name) { return &given.find(name)->second; }, in_float32);
}

/// The largest error, as a multiple of what float32 can be off by; infinite where a number is not finite.
double worst_of(const DrawnAttention& drawn)
{
    double worst = 0;
    for (std::size_t sequence = 0; sequence < drawn.b; ++sequence)
        for (std::size_t head = 0; head < drawn.h; ++head)
            worst = std::max(worst, worst_error(drawn.context_of(sequence, head), exact(drawn, sequence, head)));
    return worst;
}

Recording recorded(DrawnAttention& drawn)
{
    Recorder recorder;
    drawn.run(Trace(recorder));
    return recorder.recording();
}

} // namespace

TEST_CASE("fast attention is as near to exact numbers as float32 can be, for any mask, bias and sizes", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 150; ++seed) {
        CAPTURE(seed);
        DrawnAttention drawn(seed);
        drawn.run();
        CHECK(worst_of(drawn) <= 1);
    }
}

TEST_CASE("fast attention gives the same bits with any number of threads, and with a listener", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 25; ++seed) {
        CAPTURE(seed);
        DrawnAttention one(seed), three(seed), traced(seed);
        const int threads = omp_get_max_threads();
        omp_set_num_threads(1);
        one.run();
        omp_set_num_threads(3);
        three.run();
        omp_set_num_threads(threads);
        recorded(traced);
        CHECK(one.context == three.context);
        CHECK(one.context == traced.context);
        CHECK(one.largest == traced.largest);
        CHECK(one.sum == traced.sum);
    }
}

TEST_CASE("each tile's scores, largest, sum and partial context follow from their formulas in float32", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 25; ++seed) {
        DrawnAttention drawn(seed);
        const Verification verification = verify(recorded(drawn));
        for (const StepCheck& check : verification.checks)
            if (!check.passed())
                FAIL("seed " << seed << ": " << check.message);
    }
}

TEST_CASE("a sum that is not rescaled is found at its tile", "[fast]")
{
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        DrawnAttention drawn(seed);
        Recording recording = recorded(drawn);
        const auto is_later_sum = [](const Step& step) {
            return step.formula.starts_with("sum_before * correction + ");
        };
        const auto found = std::ranges::find_if(recording.steps, is_later_sum);
        if (found == recording.steps.end())
            continue;
        const std::string tile = found->path.substr(0, found->path.rfind('.') + 1);
        const auto value = [&](const std::string& name) -> Array& {
            return std::ranges::find(recording.steps, tile + name, &Step::path)->value;
        };
        if (std::ranges::all_of(value("correction").values, [](double factor) { return factor > 0.99; }))
            continue;
        for (std::size_t i = 0; i < found->value.size(); ++i) { // what a program gets that forgets the correction
            const double added = found->value.values[i];
            found->value.values[i] = added / value("correction").values[i];
        }
        const Verification verification = verify(recording);
        const auto wrong =
            std::ranges::find_if(verification.checks, [](const StepCheck& check) { return !check.passed(); });
        REQUIRE(wrong != verification.checks.end());
        CHECK(wrong->path == tile + "sum");
        return;
    }
    FAIL("no draw has a correction");
}

TEST_CASE("fast attention refuses a listener that replaces any of its steps and inputs", "[fast]")
{
    std::uint64_t seed = 0;
    while (DrawnAttention(seed).b != 1)
        ++seed;
    DrawnAttention drawn(seed);
    for (const std::string path : {"values", "head.0.values", "head.0.rows.0.tile.0.partial", "context"}) {
        CAPTURE(path);
        ReplaceStep zero(path, [](double) { return 0; });
        CHECK_THROWS_WITH(drawn.run(Trace(zero)), "trace: " + path +
                                                      " was replaced, but fast::attention only shows its steps: "
                                                      "replace those of the reference");
    }
}

TEST_CASE("heads that lie side by side give the same bits as heads one after the other", "[fast]")
{
    constexpr std::size_t b = 2, h = 3, n = 5, d = 4;
    std::vector<float> apart(b * h * n * d), packed(apart.size()), context(apart.size()), packed_context(apart.size());
    const auto one = fast::head_rows(apart.data(), {b, h, n, d});
    const auto other = fast::packed_head_rows(packed.data(), {b, h, n, d});
    for (std::size_t i = 0; i < b * h * n; ++i)
        for (std::size_t k = 0; k < d; ++k)
            one.row(i / (h * n), i / n % h, i % n)[k] = other.row(i / (h * n), i / n % h, i % n)[k] =
                static_cast<float>(i * d + k) / 60;
    CHECK(packed[d] == apart[n * d]); // the second head of the first token
    const auto found = fast::head_rows(context.data(), {b, h, n, d});
    const auto packed_found = fast::packed_head_rows(packed_context.data(), {b, h, n, d});
    fast::attention(one, one, one, {}, found);
    fast::attention(other, other, other, {}, packed_found);
    for (std::size_t i = 0; i < b * h * n; ++i)
        for (std::size_t k = 0; k < d; ++k)
            CHECK(found.row(i / (h * n), i / n % h, i % n)[k] == packed_found.row(i / (h * n), i / n % h, i % n)[k]);
}

TEST_CASE("fast attention says which shapes disagree", "[fast]")
{
    std::vector<float> numbers(64);
    const auto rows = [&](std::size_t h, std::size_t n, std::size_t d) {
        return fast::head_rows<float>(numbers.data(), {1, h, n, d});
    };
    const auto refused = [&](const fast::HeadRows<float>& q, const fast::HeadRows<float>& k,
                             const fast::HeadRows<float>& v, const fast::HeadRows<float>& context,
                             const fast::Scoring& scoring = {}) {
        return caught<ShapeError>([&] { fast::attention(q, k, v, scoring, context); }, "nothing");
    };
    CHECK(refused(rows(1, 2, 3), rows(1, 2, 4), rows(1, 2, 3), rows(1, 2, 3)) ==
          "fast::attention: queries (1, 1, 2, 3) and keys (1, 1, 2, 4) must agree in d_k");
    CHECK(refused(rows(3, 2, 2), rows(2, 2, 2), rows(2, 2, 2), rows(3, 2, 2)) ==
          "fast::attention: 3 query heads can't be divided evenly among 2 key/value heads");
    CHECK(refused(rows(2, 2, 2), rows(2, 2, 2), rows(1, 2, 2), rows(2, 2, 2)) ==
          "fast::attention: keys (1, 2, 2, 2) and values (1, 1, 2, 2) must agree in g");
    CHECK(refused(rows(2, 2, 2), rows(2, 2, 2), rows(2, 2, 2), rows(1, 2, 2)) ==
          "fast::attention: queries (1, 2, 2, 2) and context (1, 1, 2, 2) must agree in h");
    CHECK(refused(rows(1, 2, 2), rows(1, 3, 2), rows(1, 4, 2), rows(1, 2, 2)) ==
          "fast::attention: keys (1, 1, 3, 2) and values (1, 1, 4, 2) must agree in m");
    CHECK(refused(rows(1, 2, 2), rows(1, 3, 2), rows(1, 3, 2), rows(1, 3, 2)) ==
          "fast::attention: queries (1, 1, 2, 2) and context (1, 1, 3, 2) must agree in n");
    CHECK(refused(rows(1, 2, 2), rows(1, 2, 2), rows(1, 2, 3), rows(1, 2, 2)) ==
          "fast::attention: values (1, 1, 2, 3) and context (1, 1, 2, 2) must agree in d_v");
    CHECK(refused(rows(1, 2, 2), rows(0, 2, 2), rows(0, 2, 2), rows(1, 2, 2)) ==
          "fast::attention: 1 query heads can't be divided evenly among 0 key/value heads");
    CHECK(refused(rows(0, 2, 2), rows(0, 2, 2), rows(0, 2, 2), rows(0, 2, 2)) == "nothing");
    const std::int64_t lengths[] = {5};
    CHECK(refused(rows(1, 2, 2), rows(1, 2, 2), rows(1, 2, 2), rows(1, 2, 2), {.key_lengths = lengths}) ==
          "fast::attention: key_lengths[0] is 5, expected 0 to m = 2 keys");
}

TEST_CASE("fast attention refuses a window that keeps first keys, which it does not compute", "[fast]")
{
    std::vector<float> numbers(6), context(6);
    const fast::HeadRows<float> rows = fast::head_rows(numbers.data(), {1, 1, 2, 3});
    const fast::HeadRows<float> result = fast::head_rows(context.data(), {1, 1, 2, 3});
    CHECK_THROWS_WITH(fast::attention(rows, rows, rows, {.window = {.left = 1, .kept = 1}}, result),
                      "fast::attention: the window keeps 1 first keys, expected none: give a mask");
}

TEST_CASE("fast functions refuse a null pointer, and say whose it is", "[fast]")
{
    std::vector<float> numbers(64);
    const fast::HeadRows<float> rows = fast::head_rows(numbers.data(), {1, 1, 2, 3});
    const fast::HeadRows<float> null = fast::head_rows<float>(nullptr, {1, 1, 2, 3});
    const auto is_null = [](const std::string& who, const std::string& what) {
        return "fast::" + who + ": the pointer to the numbers of " + what +
               " is null; expected the address of the first number";
    };
    CHECK_THROWS_AS(fast::attention(null, rows, rows, {}, rows), Error);
    CHECK_THROWS_WITH(fast::attention(null, rows, rows, {}, rows), is_null("attention", "queries (1, 1, 2, 3)"));
    CHECK_THROWS_WITH(fast::attention(rows, null, rows, {}, rows), is_null("attention", "keys (1, 1, 2, 3)"));
    CHECK_THROWS_WITH(fast::attention(rows, rows, null, {}, rows), is_null("attention", "values (1, 1, 2, 3)"));
    CHECK_THROWS_WITH(fast::attention(rows, rows, rows, {}, null), is_null("attention", "context (1, 1, 2, 3)"));

    const std::span<const float> sums(numbers.data(), 2);
    for (std::size_t which = 0; which < 8; ++which) {
        constexpr const char* names[] = {"queries",      "keys",         "values",    "context",
                                         "grad_context", "grad_queries", "grad_keys", "grad_values"};
        const auto of = [&](std::size_t i) { return i == which ? null : rows; };
        CHECK_THROWS_WITH(
            fast::attention_backward(of(0), of(1), of(2), {}, of(3), {sums, sums}, of(4), of(5), of(6), of(7)),
            is_null("attention_backward", names[which] + std::string(" (1, 1, 2, 3)")));
    }

    const fast::HeadRows<float> one_each = fast::head_rows(numbers.data(), {1, 1, 2, 1});
    const fast::HeadRows<float> none_each = fast::head_rows<float>(nullptr, {1, 1, 2, 1});
    const fast::PartialAttention all{rows, one_each, one_each};
    CHECK_THROWS_WITH(fast::clear({rows, none_each, one_each}), is_null("clear", "largest (1, 1, 2, 1)"));
    CHECK_THROWS_WITH(fast::merge({rows, one_each, none_each}, all, numbers), is_null("merge", "sum (1, 1, 2, 1)"));
    CHECK_THROWS_WITH(fast::merge(all, {null, one_each, one_each}, numbers), is_null("merge", "context (1, 1, 2, 3)"));

    const fast::HeadRows<float> no_rows = fast::head_rows<float>(nullptr, {1, 1, 0, 3});
    CHECK_NOTHROW(fast::attention(no_rows, rows, rows, {}, no_rows)); // there is nothing to point to
}

TEST_CASE("fast attention is as near to exact numbers as float32 can be in ten thousand draws", "[.][draws]")
{
    double worst = 0;
    for (std::uint64_t seed = 0; seed < 10000; ++seed) {
        DrawnAttention drawn(seed);
        drawn.run();
        worst = std::max(worst, worst_of(drawn));
        CAPTURE(seed);
        REQUIRE(worst <= 1);
    }
    WARN("the largest error is " << worst << " of what float32 can be off by");
}
