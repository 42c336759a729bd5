#include "attn/reference/layers/position.hpp"

#include "laws.hpp"
#include "pairs_by_hand.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

#include <algorithm>
#include <limits>

using namespace attn;
using namespace attn::test;

namespace {

constexpr SineLayout sine_layouts[] = {SineLayout::interleaved, SineLayout::halves};

/// Feature 2i is a sine, feature 2i + 1 the cosine of the same angle.
Matrix sinusoids_by_hand(std::size_t n, std::size_t d, double base, std::size_t first)
{
    Matrix positions(Matrix::shape_type{n, d});
    for (std::size_t p = 0; p < n; ++p)
        for (std::size_t j = 0; j < d; ++j) {
            const double angle = static_cast<double>(first + p) * frequency_by_hand(j / 2, d, base);
            positions(p, j) = j % 2 == 0 ? std::sin(angle) : std::cos(angle);
        }
    return positions;
}

} // namespace

// ---------------------------------------------------------------------------------------------------------- sinusoidal

TEST_CASE("sinusoidal positions are sines and cosines of ever slower angles", "[layers][position]")
{
    for (const std::size_t n : {0, 1, 20})
        for (const std::size_t d : {1, 2, 5, 8})
            for (const double base : {10000.0, 100.0})
                for (const std::size_t first : {0, 7}) {
                    CAPTURE(n, d, base, first);
                    CHECK(close(sinusoidal_positions(n, d, {.base = base, .first = first}),
                                sinusoids_by_hand(n, d, base, first)));
                }
}

TEST_CASE("the first position is all sines of zero and cosines of zero", "[layers][position]")
{
    CHECK(same_bits(sinusoidal_positions(1, 6), Matrix{{0, 1, 0, 1, 0, 1}}));
    CHECK(same_bits(sinusoidal_positions(1, 6, {.layout = SineLayout::halves}), Matrix{{0, 0, 0, 1, 1, 1}}));
}

TEST_CASE("the first pair of features rotates by one radian per position", "[layers][position]")
{
    const Matrix positions = sinusoidal_positions(4, 512);
    for (std::size_t p = 0; p < 4; ++p) {
        CHECK(positions(p, 0) == std::sin(static_cast<double>(p)));
        CHECK(positions(p, 1) == std::cos(static_cast<double>(p)));
    }
}

TEST_CASE("sinusoidal halves are the interleaved features in another order", "[layers][position]")
{
    for (const std::size_t d : {1, 2, 6, 7}) {
        CAPTURE(d);
        CHECK(same_bits(sinusoidal_positions(5, d, {.layout = SineLayout::halves}),
                        reordered_columns(sinusoidal_positions(5, d), halves_order(d))));
    }
}

TEST_CASE("positions that begin later are the rows of a longer table", "[layers][position]")
{
    for (const SineLayout layout : sine_layouts)
        CHECK(same_bits(sinusoidal_positions(3, 6, {.layout = layout, .first = 4}),
                        rows_by_hand(sinusoidal_positions(7, 6, {.layout = layout}), {4, 5, 6})));
}

TEST_CASE("no two of a thousand sinusoidal positions are the same", "[layers][position]")
{
    const Matrix positions = sinusoidal_positions(1000, 8);
    double nearest = 1;
    for (std::size_t p = 0; p < 1000; ++p)
        for (std::size_t q = 0; q < p; ++q) {
            double distance = 0;
            for (std::size_t j = 0; j < 8; ++j)
                distance += std::abs(positions(p, j) - positions(q, j));
            nearest = std::min(nearest, distance);
        }
    CHECK(nearest > 1e-3);
}

TEST_CASE("a traced table of positions gives the same bits, and every formula holds", "[layers][position][trace]")
{
    for (const std::size_t d : {1, 5, 6})
        for (const SineLayout layout : sine_layouts)
            for (const std::size_t first : {0, 3})
                for (const double base : {10000.0, 500000.0, 1.5}) {
                    const SinusoidalOptions options{base, layout, first};
                    CAPTURE(d, base, first, layout == SineLayout::halves);
                    const Recorder recorder =
                        traced([&](const Trace& trace) { return sinusoidal_positions(4, d, options, trace); });
                    CHECK(recorder.steps().size() == 3);
                }
}

TEST_CASE("position_shift moves every position by k, whatever the position is", "[layers][position]")
{
    for (const SineLayout layout : sine_layouts)
        for (const std::size_t d : {2, 6, 8})
            for (const double base : {10000.0, 50.0})
                for (const int k : {0, 1, 3, -2, -5}) {
                    CAPTURE(layout == SineLayout::halves, d, base, k);
                    const std::size_t moved = static_cast<std::size_t>(5 + k);
                    const Matrix here = sinusoidal_positions(9, d, {base, layout, 5});
                    const Matrix there = sinusoidal_positions(9, d, {base, layout, moved});
                    CHECK(close(product_by_hand(here, position_shift(k, d, {.base = base, .layout = layout})), there));
                }
}

TEST_CASE("a position shift is a rotation, and shifts add up", "[layers][position]")
{
    for (const SineLayout layout : sine_layouts) {
        const Matrix two = position_shift(2, 6, {.layout = layout});
        CHECK(close(product_by_hand(two, transpose_by_hand(two)), identity(6)));
        CHECK(close(product_by_hand(two, position_shift(0.5, 6, {.layout = layout})),
                    position_shift(2.5, 6, {.layout = layout})));
        CHECK(close(position_shift(0, 6, {.layout = layout}), identity(6), 0));
        CHECK(close(position_shift(-2, 6, {.layout = layout}), transpose_by_hand(two)));
    }
}

TEST_CASE("a position shift is the same wherever positions begin", "[layers][position]")
{
    CHECK(same_bits(position_shift(3, 4, {.first = 9}), position_shift(3, 4)));
}

TEST_CASE("an odd number of features has no position shift", "[layers][position]")
{
    CHECK_THROWS_AS(position_shift(1, 5), ShapeError);
    CHECK_THROWS_WITH(position_shift(1, 5),
                      ContainsSubstring("position_shift: 5 features do not make pairs, expected an even number"));
}

// ------------------------------------------------------------------------------------------------------------- learned

TEST_CASE("learned positions are rows of the table, from the first", "[layers][position]")
{
    const Matrix table{{1, 2}, {3, 4}, {5, 6}, {7, 8}};
    CHECK(same_bits(learned_positions(table, 2), Matrix{{1, 2}, {3, 4}}));
    CHECK(same_bits(learned_positions(table, 2, 2), Matrix{{5, 6}, {7, 8}}));
    CHECK(same_bits(learned_positions(table, 4), table));
    CHECK(shape_of(learned_positions(table, 0, 4)) == Shape{0, 2});
}

TEST_CASE("a traced slice of learned positions gives the same bits, and its formula holds", "[layers][position][trace]")
{
    const Matrix table = Numbers(1).matrix(6, 3);
    for (const std::size_t first : {0, 2}) {
        traced([&](const Trace& trace) { return learned_positions(table, 3, first, trace); });
    }
}

TEST_CASE("a table of learned positions that ends too early is refused", "[layers][position]")
{
    const Matrix table(Matrix::shape_type{4, 2});
    CHECK_THROWS_AS(learned_positions(table, 5), ShapeError);
    CHECK_THROWS_AS(learned_positions(table, 1, 4), ShapeError);
    CHECK_THROWS_WITH(learned_positions(table, 2, 3),
                      ContainsSubstring("learned_positions: table (4, 2) has no rows 3 to 5"));
    CHECK_THROWS_AS(learned_positions(table, 2, std::numeric_limits<std::size_t>::max()), ShapeError);
    CHECK_THROWS_AS(learned_positions(table, std::numeric_limits<std::size_t>::max(), 1), ShapeError);
}

// --------------------------------------------------------------------------------------------------------------- ALiBi

TEST_CASE("ALiBi's slopes for 8 and for 12 heads are the published ones", "[layers][alibi]")
{
    CHECK(same_bits(alibi_slopes(8), Vector{0x1p-1, 0x1p-2, 0x1p-3, 0x1p-4, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8}));
    const double root = std::sqrt(2.0);
    CHECK(close(alibi_slopes(12),
                Vector{0x1p-1, 0x1p-2, 0x1p-3, 0x1p-4, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8, 1 / root, 1 / (2 * root),
                       1 / (4 * root), 1 / (8 * root)},
                1e-15));
}

TEST_CASE("ALiBi's slopes for other numbers of heads end at 2^-8, or go on with every second of twice as many",
          "[layers][alibi]")
{
    CHECK(same_bits(alibi_slopes(1), Vector{0x1p-8}));
    CHECK(same_bits(alibi_slopes(2), Vector{0x1p-4, 0x1p-8}));
    CHECK(same_bits(alibi_slopes(4), Vector{0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8}));
    CHECK(same_bits(alibi_slopes(3), Vector{0x1p-4, 0x1p-8, 0x1p-2}));
    CHECK(same_bits(alibi_slopes(6), Vector{0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8, 0x1p-1, 0x1p-3}));
    CHECK(alibi_slopes(0).size() == 0);
}

TEST_CASE("ALiBi subtracts slope times distance, with the last query at the last key's position", "[layers][alibi]")
{
    CHECK(close(alibi_bias(3, 3, 0.5), Matrix{{0, -0.5, -1}, {-0.5, 0, -0.5}, {-1, -0.5, 0}}, 0));
    CHECK(close(alibi_bias(2, 4, 0.25), Matrix{{-0.5, -0.25, 0, -0.25}, {-0.75, -0.5, -0.25, 0}}, 0));
    CHECK(close(alibi_bias(3, 1, 2), Matrix{{-4}, {-2}, {0}}, 0));
    CHECK(shape_of(alibi_bias(0, 3, 1)) == Shape{0, 3});
}

TEST_CASE("a traced ALiBi bias gives the same bits, and its formula holds", "[layers][alibi][trace]")
{
    for (const std::size_t n : {1, 3, 5})
        for (const double slope : {0x1p-8, 0.3, 1.0}) {
            CAPTURE(n, slope);
            traced([&](const Trace& trace) { return alibi_bias(n, 3, slope, trace); });
        }
}

TEST_CASE("buckets of distance are T5's: one for each near distance, then eight that reach to 128", "[layers][buckets]")
{
    Matrix table(Matrix::shape_type{32, 1}); // the number of the bucket
    for (std::size_t i = 0; i < 32; ++i)
        table(i, 0) = static_cast<double>(i);
    const std::size_t first_of[] = {0, 1,  2,  3,  4,  5,  6,  7,
                                    8, 12, 16, 23, 32, 46, 64, 91}; // 8 * 16^(k / 8), rounded up
    const std::size_t n = 200;
    const Tensor4 both = bucket_bias(n, n, table, {}), past = bucket_bias(n, n, table, {.is_bidirectional = false});
    for (std::size_t distance = 0; distance < n; ++distance) {
        const auto bucket = std::ranges::upper_bound(first_of, distance) - std::begin(first_of) - 1;
        CHECK(both(0, 0, distance, 0) == static_cast<double>(bucket));
        CHECK(both(0, 0, 0, distance) == static_cast<double>(bucket) + (distance > 0 ? 16 : 0));
        CHECK(past(0, 0, 0, distance) == 0);
    }
    CHECK(past(0, 0, 15, 0) == 15);
    CHECK(past(0, 0, 112, 0) == 30); // 16 * 8^(15 / 16) = 112.4
    CHECK(past(0, 0, 113, 0) == 31);
    CHECK(past(0, 0, 199, 0) == 31);
}

TEST_CASE("a traced bias of buckets follows from its formula, after other tokens and at places, too",
          "[layers][buckets][trace]")
{
    Numbers numbers(5);
    const Matrix table = numbers.matrix(8, 3);
    for (const bool is_bidirectional : {true, false}) {
        const DistanceBuckets buckets{.farthest = 9, .is_bidirectional = is_bidirectional};
        const Integers queries{3, 4}, keys{0, 1, 2, 3, 4};
        const Recorder recorder = recorded([&](const Trace& trace) {
            const Trace last = trace.scope("last"), placed = trace.scope("placed");
            CHECK(
                same_bits(bucket_bias(2, 5, table, buckets, last), bucket_bias(queries, keys, table, buckets, placed)));
        });
        CHECK(wrong_steps(recorder) == std::vector<std::string>{});
    }
    CHECK_THROWS_AS(bucket_bias(2, 2, numbers.matrix(2, 1), {}), ShapeError);
    CHECK_THROWS_AS(bucket_bias(2, 2, numbers.matrix(7, 1), {}), ShapeError);
    CHECK_THROWS_AS(bucket_bias(2, 2, numbers.matrix(32, 1), {.farthest = 8}), ShapeError);
}
