#include "attn/reference/ops/batch.hpp"

#include "by_hand.hpp"
#include "generators.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

using namespace attn;
using namespace attn::test;

TEST_CASE("tokens_of stacks the tokens of a batch, sequence by sequence", "[ops][batch]")
{
    const Tensor3 batch{{{1, 2}, {3, 4}, {5, 6}}, {{7, 8}, {9, 10}, {11, 12}}};
    CHECK(same_bits(tokens_of(batch), Matrix{{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}}));
}

TEST_CASE("batch_of undoes tokens_of", "[ops][batch]")
{
    Numbers numbers(1);
    for (const std::size_t b : {0, 1, 2, 5})
        for (const std::size_t n : {0, 1, 3})
            for (const std::size_t d : {0, 1, 4}) {
                CAPTURE(b, n, d);
                const Tensor3 batch = numbers.tensor3(b, n, d);
                const Matrix tokens = tokens_of(batch);
                CHECK(shape_of(tokens) == Shape{b * n, d});
                CHECK(same_bits(batch_of(tokens, b, n), batch));
            }
}

TEST_CASE("batch_of refuses more or fewer tokens than the batch has places", "[ops][batch]")
{
    const Matrix tokens(Matrix::shape_type{6, 2});
    for (const std::size_t sequences : {0, 2, 4, 6}) {
        CAPTURE(sequences);
        CHECK_THROWS_AS(batch_of(tokens, sequences, 2), ShapeError);
        CHECK_THROWS_WITH(
            batch_of(tokens, sequences, 2),
            ContainsSubstring("batch_of: tokens (6, 2) are not " + std::to_string(sequences) + " sequences of 2"));
    }
}

TEST_CASE("a function of tokens maps a sequence once, and a batch as one longer sequence", "[ops][batch]")
{
    const auto with_index = [](const Matrix& tokens) {
        Matrix result(Matrix::shape_type{tokens.shape(0), 2});
        for (std::size_t i = 0; i < tokens.shape(0); ++i) {
            result(i, 0) = static_cast<double>(i);
            result(i, 1) = tokens(i, 0);
        }
        return result;
    };
    CHECK(same_bits(token_by_token(Matrix{{7}, {8}}, with_index), Matrix{{0, 7}, {1, 8}}));
    CHECK(same_bits(token_by_token(Tensor3{{{7}, {8}}, {{9}, {6}}}, with_index),
                    Tensor3{{{0, 7}, {1, 8}}, {{2, 9}, {3, 6}}}));
}

TEST_CASE("PerToken is a vector for a sequence and a matrix for a batch", "[ops][batch]")
{
    CHECK(std::is_same_v<PerToken<Matrix>, Vector>);
    CHECK(std::is_same_v<PerToken<Tensor3>, Matrix>);
}
