#include "attn/reference/attention/dot_product.hpp"

#include "by_hand.hpp"
#include "generators.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

using namespace attn;
using namespace attn::test;

TEST_CASE("dot-product attention is softmax(Q K^T) V", "[attention]")
{
    const Problem p = random_problem({}, 1);
    const Matrix scores = product_by_hand(p.queries, transpose_by_hand(p.keys));
    const Attention attention = dot_product_attention(p.queries, p.keys, p.values);
    CHECK(close(attention.weights, softmax_by_hand(scores)));
    CHECK(close(attention.context, product_by_hand(softmax_by_hand(scores), p.values)));
}

TEST_CASE("scaled dot-product attention divides the scores by the root of d_k", "[attention]")
{
    const Problem p = random_problem({}, 2);
    Matrix scores = product_by_hand(p.queries, transpose_by_hand(p.keys));
    for (double& score : scores)
        score /= std::sqrt(5.0);
    const Attention attention = scaled_dot_product_attention(p.queries, p.keys, p.values);
    CHECK(close(attention.weights, softmax_by_hand(scores)));
    CHECK(close(attention.context, product_by_hand(softmax_by_hand(scores), p.values)));
}

TEST_CASE("a scale of 1 gives the same context as no scale, bit for bit", "[attention]")
{
    const Problem p = random_problem({}, 3);
    CHECK(same_bits(scaled_dot_product_attention(p.queries, p.keys, p.values, {.scale = 1}).context,
                    dot_product_attention(p.queries, p.keys, p.values).context));
}

TEST_CASE("the scale multiplies the scores", "[attention]")
{
    const Problem p = random_problem({}, 4);
    Matrix queries = p.queries;
    for (double& number : queries)
        number *= -0.25; // a power of two, so that nothing is rounded
    CHECK(same_bits(scaled_dot_product_attention(p.queries, p.keys, p.values, {.scale = -0.25}).context,
                    dot_product_attention(queries, p.keys, p.values).context));
}

TEST_CASE("with a scale of 0, all keys that the mask allows have equal weights", "[attention][mask]")
{
    const Problem p = random_problem({}, 5);
    const Mask mask{{true, true, true, true}, {true, false, true, false}, {false, false, false, true}};
    const Attention attention = scaled_dot_product_attention(p.queries, p.keys, p.values, {.mask = mask, .scale = 0});
    CHECK(same_bits(attention.weights, Matrix{{0.25, 0.25, 0.25, 0.25}, {0.5, 0, 0.5, 0}, {0, 0, 0, 1}}));
}

TEST_CASE("attention to oneself may share one matrix for queries, keys and values", "[attention]")
{
    const Matrix x = Numbers(6).matrix(4, 3);
    const Matrix scores = product_by_hand(x, transpose_by_hand(x));
    CHECK(close(dot_product_attention(x, x, x).context, product_by_hand(softmax_by_hand(scores), x)));
}

TEST_CASE("scores of 1e300 do not overflow: the best key gets weight 1", "[attention]")
{
    const Matrix queries{{1e150, 0}};
    const Matrix keys{{1e150, 0}, {0, 1e150}};
    CHECK(same_bits(dot_product_attention(queries, keys, keys).weights, Matrix{{1, 0}}));
}

TEST_CASE("dot-product attention refuses what disagrees, by name", "[attention]")
{
    const Matrix queries(Matrix::shape_type{3, 4});
    const Matrix keys(Matrix::shape_type{6, 4});
    const Matrix values(Matrix::shape_type{6, 2});
    const Matrix wide_keys(Matrix::shape_type{6, 5});
    const Matrix few_values(Matrix::shape_type{1, 2});

    CHECK_THROWS_AS(dot_product_attention(queries, wide_keys, values), ShapeError);
    CHECK_THROWS_WITH(dot_product_attention(queries, wide_keys, values),
                      "dot_product_attention: queries (3, 4) and keys (6, 5) must agree in d_k: "
                      "axis 1 of queries is 4, axis 1 of keys is 5");
    CHECK_THROWS_WITH(dot_product_attention(queries, keys, few_values),
                      ContainsSubstring("dot_product_attention: keys (6, 4) and values (1, 2) must agree in m"));
    CHECK_THROWS_WITH(scaled_dot_product_attention(queries, wide_keys, values),
                      ContainsSubstring("scaled_dot_product_attention: queries (3, 4) and keys (6, 5)"));
    CHECK_THROWS_WITH(scaled_dot_product_attention(queries, keys, few_values),
                      ContainsSubstring("scaled_dot_product_attention: keys (6, 4) and values (1, 2)"));
}
