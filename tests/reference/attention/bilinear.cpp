#include "attn/reference/attention/bilinear.hpp"

#include "by_hand.hpp"
#include "generators.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/attention/dot_product.hpp"

using namespace attn;
using namespace attn::test;

TEST_CASE("bilinear attention is softmax(Q W K^T) V", "[attention]")
{
    const Problem p = random_problem({}, 1);
    const Matrix scores = product_by_hand(product_by_hand(p.wide_queries, p.bilinear), transpose_by_hand(p.keys));
    const Attention attention = bilinear_attention(p.wide_queries, p.keys, p.values, p.bilinear);
    CHECK(close(attention.weights, softmax_by_hand(scores)));
    CHECK(close(attention.context, product_by_hand(softmax_by_hand(scores), p.values)));
}

TEST_CASE("bilinear attention with the identity is dot-product attention", "[attention]")
{
    const Problem p = random_problem({}, 2);
    Matrix identity(Matrix::shape_type{5, 5}, 0.0);
    for (std::size_t i = 0; i < 5; ++i)
        identity(i, i) = 1;
    CHECK(close(bilinear_attention(p.queries, p.keys, p.values, identity, {.mask = p.mask}).context,
                dot_product_attention(p.queries, p.keys, p.values, {.mask = p.mask}).context));
}

TEST_CASE("bilinear attention refuses what disagrees, by name", "[attention]")
{
    const Matrix queries(Matrix::shape_type{3, 2});
    const Matrix keys(Matrix::shape_type{4, 5});
    const Matrix values(Matrix::shape_type{4, 6});
    const Matrix bilinear(Matrix::shape_type{2, 5});
    const Matrix turned(Matrix::shape_type{5, 2});
    const Matrix narrow(Matrix::shape_type{2, 1});
    const Matrix few(Matrix::shape_type{3, 6});
    REQUIRE_NOTHROW(bilinear_attention(queries, keys, values, bilinear));
    CHECK_THROWS_AS(bilinear_attention(queries, keys, values, turned), ShapeError);
    CHECK_THROWS_WITH(
        bilinear_attention(queries, keys, values, turned),
        ContainsSubstring("bilinear_attention: queries (3, 2) and bilinear weights (5, 2) must agree in d_q"));
    CHECK_THROWS_WITH(
        bilinear_attention(queries, keys, values, narrow),
        ContainsSubstring("bilinear_attention: keys (4, 5) and bilinear weights (2, 1) must agree in d_k"));
    CHECK_THROWS_WITH(bilinear_attention(queries, keys, few, bilinear),
                      ContainsSubstring("bilinear_attention: keys (4, 5) and values (3, 6) must agree in m"));
}
