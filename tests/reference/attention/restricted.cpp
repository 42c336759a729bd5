#include "attn/reference/attention/restricted.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/attention/dot_product.hpp"

#include "interventions.hpp"
#include "by_hand.hpp"
#include "generators.hpp"
#include "step_tables.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::formula;
using namespace attn::mistakes;
using namespace attn::test;

namespace {

using Distances = std::vector<std::int64_t>;

Distances listed(const Integers& distances) { return {distances.begin(), distances.end()}; }

Distances distances_of(const Neighbourhood& neighbourhood, std::size_t n)
{
    return listed(distances_within(neighbourhood, n));
}

/// Who is a neighbour, pair by pair.
Mask pairs_by_hand(std::size_t n, const Neighbourhood& of)
{
    Mask mask(Mask::shape_type{n, n});
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) {
            const std::size_t apart = i < j ? j - i : i - j;
            const bool is_near = of.radius && apart <= *of.radius;
            const bool is_in_step = of.stride && apart % *of.stride == 0;
            mask(i, j) = (is_near || is_in_step) && (of.side == Side::both || j <= i);
        }
    return mask;
}

/// The compact weights at their places in (n, n).
Matrix spread(const RestrictedAttention& attention)
{
    const std::size_t n = attention.weights.shape(0);
    Matrix weights(Matrix::shape_type{n, n}, 0.0);
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t c = 0; c < attention.weights.shape(1); ++c)
            if (attention.band.mask(i, c))
                weights(i, i + static_cast<std::size_t>(attention.band.distances(c))) += attention.weights(i, c);
    return weights;
}

/// Drawn sizes: among them one token, a radius beyond the ends, radius 0, an odd number of features.
struct Drawn {
    std::size_t n, d_k, d_v;
    RestrictedOptions options;
};

Drawn sample(std::uint64_t seed)
{
    std::mt19937_64 engine(seed);
    const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(engine() % bound); };
    Drawn result{.n = 1 + below(24), .d_k = 1 + below(9), .d_v = 1 + below(9), .options = {}};
    Neighbourhood& neighbourhood = result.options.neighbourhood;
    const std::size_t kind = seed % 3; // local, strided, both
    if (kind != 1)
        neighbourhood.radius = below(result.n + 3);
    if (kind != 0)
        neighbourhood.stride = 1 + below(result.n + 3);
    neighbourhood.side = below(2) == 0 ? Side::both : Side::causal;
    if (below(4) == 0)
        result.options.scale = 0.375;
    return result;
}

const Neighbourhood local_1{.radius = 1};

} // namespace

TEST_CASE("distances of neighbourhoods, by hand", "[attention][restricted]")
{
    CHECK(distances_of({.radius = 2}, 9) == Distances{-2, -1, 0, 1, 2});
    CHECK(distances_of({.radius = 2, .side = Side::causal}, 9) == Distances{-2, -1, 0});
    CHECK(distances_of({.radius = 0}, 9) == Distances{0});
    CHECK(distances_of({.stride = 4}, 9) == Distances{-8, -4, 0, 4, 8});
    CHECK(distances_of({.stride = 4}, 8) == Distances{-4, 0, 4});
    CHECK(distances_of({.stride = 4, .side = Side::causal}, 9) == Distances{-8, -4, 0});
    CHECK(distances_of({.radius = 1, .stride = 4}, 9) == Distances{-8, -4, -1, 0, 1, 4, 8});
    CHECK(distances_of({.radius = 4, .stride = 4}, 9) == Distances{-8, -4, -3, -2, -1, 0, 1, 2, 3, 4, 8});
    CHECK(distances_of({.radius = 1, .stride = 4, .side = Side::causal}, 9) == Distances{-8, -4, -1, 0});
}

TEST_CASE("no distance is further than the sequence is long", "[attention][restricted]")
{
    CHECK(distances_of({.radius = 5}, 3) == Distances{-2, -1, 0, 1, 2});
    CHECK(distances_of({.radius = SIZE_MAX}, 2) == Distances{-1, 0, 1});
    CHECK(distances_of({.stride = SIZE_MAX}, 3) == Distances{0});
    CHECK(distances_of({.radius = 7, .stride = 2}, 4) == Distances{-3, -2, -1, 0, 1, 2, 3});
    CHECK(distances_of({.radius = 3, .stride = 2}, 1) == Distances{0});
}

TEST_CASE("three tokens, each with its neighbours, by hand", "[attention][restricted]")
{
    // Equal keys: whoever is there shares evenly.
    const Matrix queries{{1}, {1}, {1}}, keys{{2}, {2}, {2}}, values{{6}, {12}, {30}};
    const RestrictedAttention found = restricted_attention(queries, keys, values, {.neighbourhood = local_1});
    CHECK(close(found.weights, Matrix{{0, 0.5, 0.5}, {1.0 / 3, 1.0 / 3, 1.0 / 3}, {0.5, 0.5, 0}}));
    CHECK(close(found.context, Matrix{{9}, {16}, {21}}));
    CHECK(listed(found.band.distances) == Distances{-1, 0, 1});
    CHECK(same_bits(found.band.mask, Mask{{false, true, true}, {true, true, true}, {true, true, false}}));
}

TEST_CASE("on 200 drawn shapes, the band gives what a masked (n, n) matrix gives", "[attention][restricted][property]")
{
    std::size_t beyond = 0, single = 0, alone = 0, odd = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        const Drawn d = sample(seed);
        const auto& [radius, stride, side] = d.options.neighbourhood;
        CAPTURE(seed, d.n, d.d_k, d.d_v, radius.value_or(9999), stride.value_or(9999), side == Side::both);
        Numbers numbers(seed);
        const Matrix queries = numbers.matrix(d.n, d.d_k), keys = numbers.matrix(d.n, d.d_k);
        const Matrix values = numbers.matrix(d.n, d.d_v);
        const RestrictedAttention found = restricted_attention(queries, keys, values, d.options);
        const Attention expected = scaled_dot_product_attention(
            queries, keys, values, {.mask = pairs_by_hand(d.n, d.options.neighbourhood), .scale = d.options.scale});
        CHECK(close(found.context, expected.context, 1e-13));
        CHECK(close(spread(found), expected.weights, 1e-13));
        beyond += radius.value_or(0) > d.n;
        single += d.n == 1;
        alone += radius == std::size_t{0};
        odd += d.d_k % 2;
    }
    CHECK(beyond > 0);
    CHECK(single > 0);
    CHECK(alone > 0);
    CHECK(odd > 0);
}

TEST_CASE("restricted attention gives weight 0 beyond either end, and the other weights of a row sum to one",
          "[attention][restricted][property]")
{
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        const Drawn d = sample(seed);
        Numbers numbers(seed);
        const RestrictedAttention found = restricted_attention(numbers.matrix(d.n, d.d_k), numbers.matrix(d.n, d.d_k),
                                                               numbers.matrix(d.n, d.d_v), d.options);
        for (std::size_t i = 0; i < d.n; ++i) {
            double sum = 0;
            for (std::size_t c = 0; c < found.weights.shape(1); ++c) {
                if (!found.band.mask(i, c))
                    CHECK(found.weights(i, c) == 0);
                sum += found.weights(i, c);
            }
            CHECK(std::abs(sum - 1) < 1e-14);
        }
    }
}

TEST_CASE("with radius 0 each token takes its own value", "[attention][restricted]")
{
    Numbers numbers(1);
    const Matrix values = numbers.matrix(5, 3);
    const RestrictedOptions options{.neighbourhood = {.radius = 0}};
    CHECK(same_bits(restricted_attention(numbers.matrix(5, 2), numbers.matrix(5, 2), values, options).context, values));
}

TEST_CASE("a changed token changes the outputs of its neighbours and no others", "[attention][restricted][property]")
{
    Numbers numbers(2);
    Matrix x = numbers.matrix(9, 3);
    const RestrictedOptions options{.neighbourhood = {.radius = 1, .stride = 4}};
    const Matrix before = restricted_attention(x, x, x, options).context;
    x(2, 1) += 1;
    const Matrix after = restricted_attention(x, x, x, options).context;
    for (std::size_t i = 0; i < 9; ++i) {
        CAPTURE(i);
        CHECK(same_bits(row_by_hand(before, i), row_by_hand(after, i)) == !(i == 1 || i == 2 || i == 3 || i == 6));
    }
}

TEST_CASE("restricted attention refuses what doesn't fit, in words", "[attention][restricted]")
{
    const Matrix three{{1, 2}, {3, 4}, {5, 6}}, two{{1, 2}, {3, 4}}, narrow{{1}, {2}, {3}};
    const RestrictedOptions options{.neighbourhood = local_1};
    CHECK_THROWS_WITH(restricted_attention(three, narrow, three, options),
                      ContainsSubstring("restricted_attention: queries (3, 2) and keys (3, 1) must agree in d_k"));
    CHECK_THROWS_WITH(restricted_attention(three, two, two, options), ContainsSubstring("must agree in n"));
    CHECK_THROWS_WITH(restricted_attention(three, three, two, options), ContainsSubstring("must agree in n"));
    CHECK_THROWS_WITH(restricted_attention(three, three, three, {}),
                      ContainsSubstring("neither a radius nor a stride"));
    CHECK_THROWS_WITH(distances_within({.stride = 0}, 3), ContainsSubstring("the stride is 0, expected at least 1"));
}

TEST_CASE("traced restricted attention is bit for bit that without, and follows from its formulas",
          "[attention][restricted][verify]")
{
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const Drawn d = sample(seed);
        CAPTURE(seed);
        Numbers numbers(seed);
        const Matrix queries = numbers.matrix(d.n, d.d_k), keys = numbers.matrix(d.n, d.d_k);
        const Matrix values = numbers.matrix(d.n, d.d_v);
        Recorder recorder;
        const RestrictedAttention traced = restricted_attention(queries, keys, values, d.options, Trace(recorder));
        const RestrictedAttention plain = restricted_attention(queries, keys, values, d.options);
        CHECK(same_bits(traced.context, plain.context));
        CHECK(same_bits(traced.weights, plain.weights));
        CHECK(same_bits(traced.band.mask, plain.band.mask));
        CHECK(verify(recorder.recording()).passed());
    }
}

TEST_CASE("the steps of restricted attention are those of its doc comment", "[steps][attention][restricted][source]")
{
    Numbers numbers(3);
    const Matrix x = numbers.matrix(6, 2);
    Recorder recorder;
    restricted_attention(x, x, x, {.neighbourhood = local_1}, Trace(recorder));
    const Lines listed_steps = promised("reference/attention/restricted.hpp", "restricted_attention");
    CHECK(different_rows(with_numbers(listed_steps, {{"N", "6"}}), recorder) == "");
    CHECK(recorder.steps().front().options ==
          StepOptions{{"radius", "1"}, {"stride", "none"}, {"side", "both"}, {"scale", "1/sqrt(d_k)"}});
}

TEST_CASE("how far neighbours are is in the formula of their distances", "[steps][attention][restricted]")
{
    Numbers numbers(4);
    const Matrix x = numbers.matrix(9, 2);
    const auto formula = [&](const Neighbourhood& neighbourhood, std::size_t step) {
        Recorder recorder;
        restricted_attention(x, x, x, {.neighbourhood = neighbourhood, .scale = 0.5}, Trace(recorder));
        return recorder.steps().at(step).formula;
    };
    CHECK(formula({.radius = 2}, 3) == "arange(5) - 2");
    CHECK(formula({.radius = 2, .side = Side::causal}, 3) == "arange(3) - 2");
    CHECK(formula({.radius = 0}, 3) == "arange(1) + 0");
    CHECK(formula({.stride = 4}, 3) == "4 * (arange(5) - 2)");
    CHECK(formula({.radius = 2, .stride = 4}, 3) ==
          "concat(4 * (arange(2) - 2), arange(5) - 2, 4 * (arange(2) + 1), axis=0)");
    CHECK(formula({.radius = 2, .stride = 4, .side = Side::causal}, 3) ==
          "concat(4 * (arange(2) - 2), arange(3) - 2, axis=0)");
    CHECK(formula({.radius = 2}, 8) == "scores * 0.5");
}

TEST_CASE("distances, places and neighbours are integers, which no rounding changes",
          "[attention][restricted][interventions]")
{
    RoundSteps rounding(Precision::bfloat16); // keeps whole numbers up to 256
    Recorder recorder;
    Listeners listeners({&rounding, &recorder});
    const Matrix tokens = Numbers(5).matrix(300, 1);
    const RestrictedAttention found =
        restricted_attention(tokens, tokens, tokens, {.neighbourhood = local_1}, Trace(listeners));
    for (const Step& step : recorder.steps())
        if (step.path == "distances" || step.path == "places" || step.path == "neighbours")
            CHECK(step.value.type == ElementType::integer);
    CHECK((*found.band.neighbours)(298, 2) == 299);
}

TEST_CASE("after any step is replaced, everything else of restricted attention follows from it",
          "[attention][restricted][interventions]")
{
    Numbers numbers(6);
    const Matrix x = numbers.matrix(5, 2), y = numbers.matrix(5, 2), z = numbers.matrix(5, 3);
    const Tensor3 batch = numbers.tensor3(2, 5, 2), other = numbers.tensor3(2, 5, 2), third = numbers.tensor3(2, 5, 3);
    for (const Neighbourhood& neighbourhood :
         {local_1, Neighbourhood{.stride = 2}, Neighbourhood{.radius = 1, .stride = 3, .side = Side::causal}}) {
        const RestrictedOptions options{.neighbourhood = neighbourhood};
        const auto run = [&](const Trace& trace) { restricted_attention(x, y, z, options, trace); };
        CHECK(expect_replacements_used(run) == 20); // all but mask and whole numbers twice
        expect_roundings_used(run);
        expect_replacements_used(
            [&](const Trace& trace) { restricted_attention(batch, other, third, options, trace); });
    }

    const auto without = [&](const std::string& step) {
        Ablate ablate(step);
        return restricted_attention(x, x, x, {.neighbourhood = local_1}, Trace(ablate)).context;
    };
    CHECK(close(without("distances"), x)); // three times itself
    CHECK(same_bits(without("mask"), Matrix(xt::zeros<double>({5, 2}))));
}

TEST_CASE("neighbours replaced by ones that name no key are refused, in words",
          "[attention][restricted][interventions]")
{
    const Matrix x = Numbers(7).matrix(5, 2);
    ReplaceStep further("neighbours", [](double neighbour) { return neighbour + 2; });
    CHECK_THROWS_WITH(restricted_attention(x, x, x, {.neighbourhood = local_1}, Trace(further)),
                      ContainsSubstring("a neighbour of row 2 is row 5, expected 0 to 4"));
}

TEST_CASE("restricted attention of a batch gives what each sequence alone gives, traced or not",
          "[attention][restricted][batch]")
{
    Numbers numbers(8);
    const Tensor3 queries = numbers.tensor3(3, 6, 2), keys = numbers.tensor3(3, 6, 2),
                  values = numbers.tensor3(3, 6, 4);
    const RestrictedOptions options{.neighbourhood = {.radius = 1, .stride = 4}};
    Recorder recorder;
    const RestrictedAttentionOf<Tensor3> all = restricted_attention(queries, keys, values, options, Trace(recorder));
    CHECK(same_bits(all.context, restricted_attention(queries, keys, values, options).context));
    CHECK(verify(recorder.recording()).passed());
    for (std::size_t b = 0; b < 3; ++b) {
        const auto sequence = [b](const Tensor3& of) { return Matrix(xt::view(of, b, xt::all(), xt::all())); };
        const RestrictedAttention alone =
            restricted_attention(sequence(queries), sequence(keys), sequence(values), options);
        CHECK(close(sequence(all.context), alone.context));
        CHECK(close(sequence(all.weights), alone.weights));
    }
    CHECK_THROWS_WITH(restricted_attention(queries, keys, Tensor3(Tensor3::shape_type{2, 6, 4}), options),
                      ContainsSubstring("must agree in b"));
}
