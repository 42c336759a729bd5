#include "attn/reference/attention/additive.hpp"

#include "by_hand.hpp"
#include "generators.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

using namespace attn;
using namespace attn::test;

namespace {

/// w . tanh(q W_q + k W_k) for every pair, number by number.
Matrix additive_scores_by_hand(const Matrix& queries, const Matrix& keys, const AdditiveWeights& w)
{
    const Matrix query_part = product_by_hand(queries, w.query);
    const Matrix key_part = product_by_hand(keys, w.key);
    Matrix scores(Matrix::shape_type{queries.shape(0), keys.shape(0)}, 0.0);
    for (std::size_t i = 0; i < queries.shape(0); ++i)
        for (std::size_t j = 0; j < keys.shape(0); ++j)
            for (std::size_t k = 0; k < w.score.size(); ++k)
                scores(i, j) += w.score(k) * std::tanh(query_part(i, k) + key_part(j, k));
    return scores;
}

} // namespace

TEST_CASE("additive attention's scores are computed pair by pair, by hand", "[attention]")
{
    for (const std::size_t n : {1, 3})
        for (const std::size_t m : {1, 4})
            for (const std::size_t d_hidden : {1, 7}) {
                CAPTURE(n, m, d_hidden);
                const Problem p = random_problem({.n = n, .m = m, .d_hidden = d_hidden}, 1);
                const Matrix scores = additive_scores_by_hand(p.wide_queries, p.keys, p.additive);
                const WeighingOptions raw{.normalization = Normalization::none};
                CHECK(close(additive_attention(p.wide_queries, p.keys, p.values, p.additive, raw).weights, scores));
                CHECK(close(additive_attention(p.wide_queries, p.keys, p.values, p.additive).weights,
                            softmax_by_hand(scores)));
            }
}

TEST_CASE("the concatenated form is the additive form", "[attention]")
{
    for (const std::size_t n : {1, 3})
        for (const std::size_t d_q : {1, 5}) {
            CAPTURE(n, d_q);
            const Problem p = random_problem({.n = n, .d_q = d_q}, 2);
            const Attention additive = attend(Scoring::additive, p, p.mask);
            const Attention concatenated = attend(Scoring::concatenated, p, p.mask);
            CHECK(close(additive.weights, concatenated.weights));
            CHECK(close(additive.context, concatenated.context));
        }
}

TEST_CASE("concatenating puts the query weights on top of the key weights", "[attention]")
{
    const AdditiveWeights weights{{{1, 2}}, {{3, 4}, {5, 6}}, {7, 8}};
    const ConcatenatedWeights both = concatenate(weights);
    CHECK(same_bits(both.hidden, Matrix{{1, 2}, {3, 4}, {5, 6}}));
    CHECK(same_bits(both.score, weights.score));
}

TEST_CASE("additive attention refuses what disagrees, by name", "[attention]")
{
    const Matrix queries(Matrix::shape_type{3, 2});
    const Matrix keys(Matrix::shape_type{4, 5});
    const Matrix values(Matrix::shape_type{4, 6});
    AdditiveWeights w{Matrix(Matrix::shape_type{2, 7}), Matrix(Matrix::shape_type{5, 7}),
                      Vector(Vector::shape_type{7})};
    const auto attend_anew = [&] { additive_attention(queries, keys, values, w); };
    REQUIRE_NOTHROW(attend_anew());

    SECTION("queries and their weights")
    {
        w.query = Matrix(Matrix::shape_type{1, 7});
        CHECK_THROWS_WITH(attend_anew(),
                          ContainsSubstring("additive_attention: queries (3, 2) and query weights (1, 7) "
                                            "must agree in d_q"));
    }
    SECTION("keys and their weights")
    {
        w.key = Matrix(Matrix::shape_type{4, 7});
        CHECK_THROWS_WITH(attend_anew(), ContainsSubstring("additive_attention: keys (4, 5) and key weights (4, 7) "
                                                           "must agree in d_k"));
    }
    SECTION("the two projections")
    {
        w.key = Matrix(Matrix::shape_type{5, 1}); // which xtensor would broadcast
        CHECK_THROWS_WITH(attend_anew(), ContainsSubstring("query weights (2, 7) and key weights (5, 1) "
                                                           "must agree in d_hidden"));
    }
    SECTION("the read-out")
    {
        w.score = Vector(Vector::shape_type{6});
        CHECK_THROWS_WITH(attend_anew(), ContainsSubstring("query weights (2, 7) and score weights (6,) "
                                                           "must agree in d_hidden"));
    }
    SECTION("keys and values")
    {
        const Matrix few(Matrix::shape_type{3, 6});
        CHECK_THROWS_WITH(additive_attention(queries, keys, few, w),
                          ContainsSubstring("additive_attention: keys (4, 5) and values (3, 6) must agree in m"));
    }
}

TEST_CASE("concatenated attention refuses what disagrees, by name", "[attention]")
{
    const Matrix queries(Matrix::shape_type{3, 2});
    const Matrix keys(Matrix::shape_type{4, 5});
    const Matrix values(Matrix::shape_type{4, 6});
    const Matrix few(Matrix::shape_type{3, 6});
    const ConcatenatedWeights fitting{Matrix(Matrix::shape_type{7, 8}), Vector(Vector::shape_type{8})};
    const ConcatenatedWeights short_hidden{Matrix(Matrix::shape_type{6, 8}), Vector(Vector::shape_type{8})};
    const ConcatenatedWeights short_score{Matrix(Matrix::shape_type{7, 8}), Vector(Vector::shape_type{1})};
    REQUIRE_NOTHROW(concatenated_attention(queries, keys, values, fitting));
    CHECK_THROWS_AS(concatenated_attention(queries, keys, values, short_hidden), ShapeError);
    CHECK_THROWS_WITH(concatenated_attention(queries, keys, values, short_hidden),
                      ContainsSubstring("concatenated_attention: ") && ContainsSubstring("hidden weights (6, 8)") &&
                          ContainsSubstring("must agree in d_q + d_k"));
    CHECK_THROWS_WITH(concatenated_attention(queries, keys, values, short_score),
                      ContainsSubstring("concatenated_attention: hidden weights (7, 8) and score weights (1,)"));
    CHECK_THROWS_WITH(concatenated_attention(queries, keys, few, fitting),
                      ContainsSubstring("concatenated_attention: keys (4, 5) and values (3, 6) must agree in m"));
}

TEST_CASE("query and key weights of different hidden sizes cannot be concatenated", "[attention]")
{
    const AdditiveWeights weights{Matrix(Matrix::shape_type{2, 7}), Matrix(Matrix::shape_type{5, 6}),
                                  Vector(Vector::shape_type{7})};
    CHECK_THROWS_AS(concatenate(weights), ShapeError);
}
