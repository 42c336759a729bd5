#include "attn/reference/ops/heads.hpp"

#include "by_hand.hpp"
#include "generators.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"

using namespace attn;
using namespace attn::test;

TEST_CASE("features of heads side by side stand apart by head, and side by side again", "[ops][heads]")
{
    const Matrix packed{{1, 2, 3, 4}, {5, 6, 7, 8}};
    CHECK(same_bits(unpack_heads(packed, 2), Tensor4{{{{1, 2}, {5, 6}}, {{3, 4}, {7, 8}}}}));
    Numbers numbers(1);
    const Tensor3 batch = numbers.tensor3(2, 3, 6);
    for (const std::size_t heads : {1, 2, 3, 6})
        CHECK(same_bits(pack_heads(unpack_heads(batch, heads)), batch));
    CHECK_THROWS_WITH(unpack_heads(batch, 4), ContainsSubstring("can't be divided evenly among 4 heads"));
}

TEST_CASE("a repeated head stands beside itself, before the next", "[ops][heads]")
{
    const Tensor4 heads{{{{1}}, {{2}}}};
    CHECK(same_bits(repeat_heads(heads, 2), Tensor4{{{{1}}, {{1}}, {{2}}, {{2}}}}));
}

TEST_CASE("products and rows of heads are those of each head", "[ops][heads]")
{
    Numbers numbers(2);
    const Tensor3 left = numbers.tensor3(6, 2, 3), right = numbers.tensor3(6, 3, 4), more = numbers.tensor3(6, 1, 3);
    CHECK(same_bits(as_batch(matmul(as_heads(left, 2, 3), as_heads(right, 2, 3))), matmul(left, right)));
    const Tensor4 both = concat_rows(as_heads(left, 2, 3), as_heads(more, 2, 3));
    CHECK(shape_of(both) == Shape{2, 3, 3, 3});
    CHECK(both(1, 2, 1, 0) == left(5, 1, 0));
    CHECK(both(1, 2, 2, 0) == more(5, 0, 0));
    CHECK(transpose(as_heads(left, 2, 3))(1, 0, 2, 1) == left(3, 1, 2));
    CHECK_THROWS_AS(as_heads(left, 2, 2), ShapeError);
    CHECK_THROWS_WITH(concat_rows(as_heads(left, 2, 3), as_heads(more, 3, 2)), ContainsSubstring("must agree in b"));
}

TEST_CASE("rows of a table for a batch of ids are those of each sequence", "[ops][concat]")
{
    const Matrix table{{1, 2}, {3, 4}, {5, 6}};
    const IntegerMatrix ids{{2, 0}, {1, 1}};
    CHECK(same_bits(take_rows(table, ids), Tensor3{{{5, 6}, {1, 2}}, {{3, 4}, {3, 4}}}));
}
