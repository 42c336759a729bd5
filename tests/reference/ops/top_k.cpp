#include "attn/reference/ops/top_k.hpp"

#include "generators.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

#include <algorithm>

using namespace attn;
using namespace attn::test;

TEST_CASE("the k largest of each row are as many as were asked for, and no other is larger", "[ops][top_k]")
{
    const Matrix scores = Numbers(1).matrix(20, 7);
    for (std::size_t k = 1; k <= 7; ++k) {
        const Mask taken = top_k(scores, k);
        for (std::size_t i = 0; i < 20; ++i) {
            double least = infinity, greatest_of_others = -infinity;
            std::size_t count = 0;
            for (std::size_t j = 0; j < 7; ++j) {
                count += taken(i, j);
                if (taken(i, j))
                    least = std::min(least, scores(i, j));
                else
                    greatest_of_others = std::max(greatest_of_others, scores(i, j));
            }
            CAPTURE(k, i);
            CHECK(count == k);
            CHECK(least > greatest_of_others);
        }
    }
}

TEST_CASE("of equal numbers the first are among the k largest, and NaN is larger than all", "[ops][top_k]")
{
    CHECK((top_k(Matrix{{1, 3, 3, 3, 0}}, 2) == Mask{{false, true, true, false, false}}));
    CHECK((top_k(Matrix{{0, 0, 0}}, 1) == Mask{{true, false, false}}));
    CHECK((top_k(Matrix{{-infinity, 2, -infinity}}, 2) == Mask{{true, true, false}}));
    CHECK((top_k(Matrix{{infinity, not_a_number, 1, not_a_number}}, 2) == Mask{{false, true, false, true}}));
    CHECK((top_k(Matrix{{infinity, not_a_number, 1, not_a_number}}, 3) == Mask{{true, true, false, true}}));
}

TEST_CASE("the k largest of batches and heads are those of each row", "[ops][top_k]")
{
    Numbers numbers(2);
    const Tensor3 batch = numbers.tensor3(2, 3, 5);
    const BatchMask taken = top_k(batch, 2);
    Tensor4 heads(Tensor4::shape_type{1, 2, 3, 5});
    std::ranges::copy(batch.storage(), heads.storage().begin());
    const HeadMask of_heads = top_k(heads, 2);
    CHECK(std::ranges::equal(taken.storage(), of_heads.storage()));
    for (std::size_t b = 0; b < 2; ++b)
        for (std::size_t i = 0; i < 3; ++i) {
            Matrix row(Matrix::shape_type{1, 5});
            for (std::size_t j = 0; j < 5; ++j)
                row(0, j) = batch(b, i, j);
            const Mask alone = top_k(row, 2);
            for (std::size_t j = 0; j < 5; ++j)
                CHECK(taken(b, i, j) == alone(0, j));
        }
}

TEST_CASE("none, or more than a row has, can't be its largest", "[ops][top_k]")
{
    CHECK_THROWS_AS(top_k(Matrix{{1, 2}}, 0), ShapeError);
    CHECK_THROWS_WITH(top_k(Matrix{{1, 2}}, 3),
                      "top_k: of scores (1, 2) the 3 largest of each row were asked for, expected 1 to 2");
}
