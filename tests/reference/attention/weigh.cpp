#include "attn/reference/attention/weigh.hpp"

#include "by_hand.hpp"
#include "generators.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

using namespace attn;
using namespace attn::test;

// What holds for every attention function, whatever its scoring function is.

namespace {

Mask all_true(std::size_t n, std::size_t m) { return Mask(Mask::shape_type{n, m}, true); }

bool same_bits(const Attention& left, const Attention& right)
{
    return test::same_bits(left.context, right.context) && test::same_bits(left.weights, right.weights);
}

/// The rows in another order: row i of the result is row order[i].
Matrix reordered_rows(const Matrix& matrix, const std::vector<std::size_t>& order)
{
    Matrix result(matrix.shape());
    for (std::size_t i = 0; i < matrix.shape(0); ++i)
        for (std::size_t j = 0; j < matrix.shape(1); ++j)
            result(i, j) = matrix(order[i], j);
    return result;
}

} // namespace

TEST_CASE("the context is the average of the values, weighted by the weights", "[attention]")
{
    const Problem p = random_problem({}, 1);
    for (const Scoring scoring : all_scorings) {
        CAPTURE(to_string(scoring));
        const Attention attention = attend(scoring, p);
        REQUIRE(shape_of(attention.weights) == Shape{3, 4});
        REQUIRE(shape_of(attention.context) == Shape{3, 6});
        CHECK(close(attention.context, product_by_hand(attention.weights, p.values)));
    }
}

TEST_CASE("each query's weights sum to one", "[attention]")
{
    const Problem p = random_problem({}, 2);
    const Matrix ones(Matrix::shape_type{4, 1}, 1.0);
    for (const Scoring scoring : all_scorings) {
        CAPTURE(to_string(scoring));
        const Matrix totals = product_by_hand(attend(scoring, p).weights, ones);
        CHECK(close(totals, Matrix(Matrix::shape_type{3, 1}, 1.0), 1e-15));
    }
}

TEST_CASE("permuting keys and values together changes no context", "[attention]")
{
    const Problem p = random_problem({}, 3);
    const std::vector<std::size_t> order{2, 0, 3, 1};
    Problem permuted = p;
    permuted.keys = reordered_rows(p.keys, order);
    permuted.values = reordered_rows(p.values, order);
    permuted.mask = [&] {
        Mask mask(p.mask.shape());
        for (std::size_t i = 0; i < mask.shape(0); ++i)
            for (std::size_t j = 0; j < mask.shape(1); ++j)
                mask(i, j) = p.mask(i, order[j]);
        return mask;
    }();
    for (const Scoring scoring : all_scorings) {
        CAPTURE(to_string(scoring));
        CHECK(close(attend(scoring, p).context, attend(scoring, permuted).context));
        CHECK(close(attend(scoring, p, p.mask).context, attend(scoring, permuted, permuted.mask).context));
        CHECK_FALSE(close(attend(scoring, p).weights, attend(scoring, permuted).weights));
    }
}

TEST_CASE("permuting queries permutes the contexts: no query depends on another", "[attention]")
{
    const Problem p = random_problem({}, 4);
    const std::vector<std::size_t> order{2, 0, 1};
    Problem permuted = p;
    permuted.queries = reordered_rows(p.queries, order);
    permuted.wide_queries = reordered_rows(p.wide_queries, order);
    for (const Scoring scoring : all_scorings) {
        CAPTURE(to_string(scoring));
        CHECK(close(reordered_rows(attend(scoring, p).context, order), attend(scoring, permuted).context));
    }
}

TEST_CASE("a mask that allows everything is no mask, bit for bit", "[attention][mask]")
{
    const Problem p = random_problem({}, 5);
    for (const Scoring scoring : all_scorings)
        for (const Normalization normalization : {Normalization::softmax, Normalization::none}) {
            CAPTURE(to_string(scoring));
            CHECK(same_bits(attend(scoring, p, all_true(3, 4), {.normalization = normalization}),
                            attend(scoring, p, {}, {.normalization = normalization})));
        }
}

TEST_CASE("a query that can attend to nothing has weights and context zero", "[attention][mask]")
{
    const Problem p = random_problem({}, 6);
    Mask mask = all_true(3, 4);
    for (std::size_t j = 0; j < 4; ++j)
        mask(1, j) = false;
    for (const Scoring scoring : all_scorings)
        for (const Normalization normalization : {Normalization::softmax, Normalization::none}) {
            CAPTURE(to_string(scoring));
            const Attention open = attend(scoring, p, {}, {.normalization = normalization});
            const Attention masked = attend(scoring, p, mask, {.normalization = normalization});
            CHECK(same_bits(row_by_hand(masked.weights, 1), Matrix(Matrix::shape_type{1, 4}, 0.0)));
            CHECK(same_bits(row_by_hand(masked.context, 1), Matrix(Matrix::shape_type{1, 6}, 0.0)));
            CHECK(same_bits(row_by_hand(masked.context, 0), row_by_hand(open.context, 0)));
            CHECK(same_bits(row_by_hand(masked.context, 2), row_by_hand(open.context, 2)));
        }
}

TEST_CASE("changing a forbidden key and its value changes nothing, bit for bit", "[attention][mask]")
{
    const Problem p = random_problem({}, 7);
    Mask mask = all_true(3, 4);
    for (std::size_t i = 0; i < 3; ++i)
        mask(i, 2) = false;
    Problem changed = p;
    for (std::size_t j = 0; j < 5; ++j)
        changed.keys(2, j) = 1e3;
    for (std::size_t j = 0; j < 6; ++j)
        changed.values(2, j) = -1e6;
    for (const Scoring scoring : all_scorings)
        for (const Normalization normalization : {Normalization::softmax, Normalization::none}) {
            CAPTURE(to_string(scoring));
            CHECK(same_bits(attend(scoring, p, mask, {.normalization = normalization}),
                            attend(scoring, changed, mask, {.normalization = normalization})));
            CHECK_FALSE(same_bits(attend(scoring, p, {}, {.normalization = normalization}),
                                  attend(scoring, changed, {}, {.normalization = normalization})));
        }
}

TEST_CASE("forbidding a key gives the same as removing it", "[attention][mask]")
{
    const Problem p = random_problem({}, 8);
    Mask mask = all_true(3, 4);
    for (std::size_t i = 0; i < 3; ++i)
        mask(i, 3) = false;
    Problem shorter = p;
    shorter.keys = xt::view(p.keys, xt::range(0, 3), xt::all());
    shorter.values = xt::view(p.values, xt::range(0, 3), xt::all());
    for (const Scoring scoring : all_scorings)
        for (const Normalization normalization : {Normalization::softmax, Normalization::none}) {
            CAPTURE(to_string(scoring));
            CHECK(close(attend(scoring, p, mask, {.normalization = normalization}).context,
                        attend(scoring, shorter, {}, {.normalization = normalization}).context));
        }
}

TEST_CASE("with one key, the context is its value", "[attention]")
{
    const Problem p = random_problem({.m = 1}, 9);
    for (const Scoring scoring : all_scorings) {
        CAPTURE(to_string(scoring));
        const Attention attention = attend(scoring, p);
        CHECK(same_bits(attention.weights, Matrix(Matrix::shape_type{3, 1}, 1.0)));
        for (std::size_t i = 0; i < 3; ++i)
            CHECK(same_bits(row_by_hand(attention.context, i), p.values));
    }
}

TEST_CASE("with equal keys, the context is the mean of the values", "[attention]")
{
    Problem p = random_problem({}, 10);
    p.keys = reordered_rows(p.keys, {1, 1, 1, 1});
    const Matrix mean = product_by_hand(Matrix(Matrix::shape_type{3, 4}, 0.25), p.values);
    for (const Scoring scoring : all_scorings) {
        CAPTURE(to_string(scoring));
        CHECK(close(attend(scoring, p).context, mean));
    }
}

TEST_CASE("attention without queries is empty, and without keys is zero", "[attention]")
{
    const Problem no_queries = random_problem({.n = 0}, 11);
    const Problem no_keys = random_problem({.m = 0}, 12);
    for (const Scoring scoring : all_scorings) {
        CAPTURE(to_string(scoring));
        CHECK(shape_of(attend(scoring, no_queries).context) == Shape{0, 6});
        CHECK(same_bits(attend(scoring, no_keys).context, Matrix(Matrix::shape_type{3, 6}, 0.0)));
    }
}

TEST_CASE("without normalisation the weights are the scores, and 0 where a key is forbidden", "[attention][mask]")
{
    const Matrix scores{{1, -2, 3}, {4, 5, -6}};
    const Matrix values{{1, 0}, {0, 1}, {2, 2}};
    const Mask mask{{true, false, true}, {false, true, true}};
    const Attention plain = weigh_values(scores, "scores", values, {.normalization = Normalization::none}, {});
    CHECK(same_bits(plain.weights, scores));
    CHECK(same_bits(plain.context, Matrix{{7, 4}, {-8, -7}}));
    const Attention masked =
        weigh_values(scores, "scores", values, {.mask = mask, .normalization = Normalization::none}, {});
    CHECK(same_bits(masked.weights, Matrix{{1, 0, 3}, {0, 5, -6}}));
    CHECK(same_bits(masked.context, Matrix{{7, 6}, {-12, -7}}));
}

TEST_CASE("with a given causal mask, each of fewer queries than keys attends to its allowed keys alone",
          "[attention][mask]")
{
    // Two queries, the last of four tokens: each sees the keys up to itself.
    const Mask causal{{true, true, true, false}, {true, true, true, true}};
    const Problem p = random_problem({.n = 2}, 13);
    Problem first = p;
    first.queries = row_by_hand(p.queries, 0);
    first.wide_queries = row_by_hand(p.wide_queries, 0);
    first.keys = xt::view(p.keys, xt::range(0, 3), xt::all());
    first.values = xt::view(p.values, xt::range(0, 3), xt::all());
    for (const Scoring scoring : all_scorings) {
        CAPTURE(to_string(scoring));
        const Attention attention = attend(scoring, p, causal);
        CHECK(attention.weights(0, 3) == 0);
        CHECK(close(row_by_hand(attention.context, 0), attend(scoring, first).context));
        CHECK(same_bits(row_by_hand(attention.context, 1), row_by_hand(attend(scoring, p).context, 1)));
    }
}

TEST_CASE("with a mask that allows the queries 0, 1 and 2 keys, the weights are shared equally among these keys",
          "[attention][mask]")
{
    // More queries than keys, bottom-right: the last query sees every key.
    const Mask causal{{false, false}, {true, false}, {true, true}};
    const Matrix scores{{1, 1}, {1, 1}, {1, 1}};
    const Matrix values{{2, 0}, {0, 4}};
    const Attention attention = weigh_values(scores, "scores", values, {.mask = causal}, {});
    CHECK(same_bits(attention.weights, Matrix{{0, 0}, {1, 0}, {0.5, 0.5}}));
    CHECK(same_bits(attention.context, Matrix{{0, 0}, {2, 0}, {1, 2}}));
}

TEST_CASE("a mask hides scores, however large they are", "[attention][mask]")
{
    const Matrix scores{{1e300, 0, infinity}};
    const Matrix values{{1}, {2}, {3}};
    const Attention attention = weigh_values(scores, "scores", values, {.mask = Mask{{false, true, false}}}, {});
    CHECK(same_bits(attention.weights, Matrix{{0, 1, 0}}));
    CHECK(attention.context(0, 0) == 2);
}

TEST_CASE("a mask of another shape is refused, not broadcast", "[attention][mask]")
{
    const Problem p = random_problem({}, 14);
    const Shape shape = GENERATE(Shape{1, 4}, Shape{3, 1}, Shape{4, 3}, Shape{1, 1}, Shape{2, 4}, Shape{3, 5});
    const Mask mask = all_true(shape[0], shape[1]);
    for (const Scoring scoring : all_scorings) {
        CAPTURE(to_string(scoring), shape);
        CHECK_THROWS_AS(attend(scoring, p, mask), ShapeError);
        CHECK_THROWS_WITH(attend(scoring, p, mask), ContainsSubstring("(3, 4) and mask " + to_string(shape)));
    }
}

TEST_CASE("weigh_values refuses scores and values that disagree in m", "[attention]")
{
    const Matrix scores(Matrix::shape_type{3, 4});
    const Matrix values(Matrix::shape_type{5, 2});
    CHECK_THROWS_AS(weigh_values(scores, "scaled", values, {}, {}), ShapeError);
    CHECK_THROWS_WITH(weigh_values(scores, "scaled", values, {}, {}),
                      ContainsSubstring("scaled (3, 4) and values (5, 2) must agree in m"));
}

TEST_CASE("options describe themselves", "[attention]")
{
    CHECK(describe(WeighingOptions{}) == StepOptions{{"mask", "none"}, {"normalization", "softmax"}});
    CHECK(describe(WeighingOptions{.mask = all_true(1, 1), .normalization = Normalization::none}) ==
          StepOptions{{"mask", "given"}, {"normalization", "none"}});
}
