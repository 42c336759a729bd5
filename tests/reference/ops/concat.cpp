#include "attn/reference/ops/concat.hpp"

#include "by_hand.hpp"
#include "generators.hpp"
#include "test.hpp"

#include "attn/core/shape.hpp"

using namespace attn;
using namespace attn::test;

TEST_CASE("concat puts the second vector after the first", "[ops][concat]")
{
    const Vector none(Vector::shape_type{0});
    CHECK(same_bits(concat(Vector{1, 2}, Vector{3}), Vector{1, 2, 3}));
    CHECK(same_bits(concat(none, Vector{3}), Vector{3}));
    CHECK(same_bits(concat(Vector{3}, none), Vector{3}));
    CHECK(concat(none, none).size() == 0);
}

TEST_CASE("concat_rows puts the first matrix on top of the second", "[ops][concat]")
{
    CHECK(same_bits(concat_rows(Matrix{{1, 2}}, Matrix{{3, 4}, {5, 6}}), Matrix{{1, 2}, {3, 4}, {5, 6}}));
    CHECK(same_bits(concat_rows(Matrix{{1}, {2}}, Matrix{{3}}), Matrix{{1}, {2}, {3}}));
    CHECK(same_bits(concat_rows(Matrix(Matrix::shape_type{0, 2}), Matrix{{3, 4}}), Matrix{{3, 4}}));
    CHECK(shape_of(concat_rows(Matrix(Matrix::shape_type{2, 0}), Matrix(Matrix::shape_type{1, 0}))) == Shape{3, 0});
}

TEST_CASE("matrices of different width do not stand on top of each other", "[ops][concat]")
{
    const Matrix narrow(Matrix::shape_type{2, 1});
    const Matrix wide(Matrix::shape_type{2, 3});
    CHECK_THROWS_AS(concat_rows(narrow, wide), ShapeError);
    CHECK_THROWS_WITH(concat_rows(narrow, wide), ContainsSubstring("concat_rows: first (2, 1) and second (2, 3)"));
}

TEST_CASE("concat_columns puts the features of each part side by side, token by token", "[ops][concat]")
{
    const Matrix first{{1, 2}, {5, 6}};
    const Matrix second{{3}, {7}};
    const Matrix none(Matrix::shape_type{2, 0});
    CHECK(same_bits(concat_columns(std::vector<Matrix>{first, second}), Matrix{{1, 2, 3}, {5, 6, 7}}));
    CHECK(same_bits(concat_columns(std::vector<Matrix>{second, first, second}), Matrix{{3, 1, 2, 3}, {7, 5, 6, 7}}));
    CHECK(same_bits(concat_columns(std::vector<Matrix>{none, first, none}), first));
    CHECK(same_bits(concat_columns(std::vector<Matrix>{first}), first));
    CHECK(shape_of(concat_columns(
              std::vector<Matrix>{Matrix(Matrix::shape_type{0, 2}), Matrix(Matrix::shape_type{0, 3})})) == Shape{0, 5});
}

TEST_CASE("concat_columns of batches concatenates the features of each sequence", "[ops][concat][batch]")
{
    Numbers numbers(1);
    const Tensor3 first = numbers.tensor3(2, 3, 4);
    const Tensor3 second = numbers.tensor3(2, 3, 1);
    const Tensor3 both = concat_columns(std::vector<Tensor3>{first, second});
    REQUIRE(shape_of(both) == Shape{2, 3, 5});
    for (std::size_t b = 0; b < 2; ++b)
        for (std::size_t i = 0; i < 3; ++i)
            for (std::size_t j = 0; j < 5; ++j)
                CHECK(both(b, i, j) == (j < 4 ? first(b, i, j) : second(b, i, 0)));
}

TEST_CASE("concat_columns takes parts that are listed", "[ops][concat]")
{
    const Matrix first{{1, 2}, {5, 6}}, second{{3}, {7}};
    CHECK(same_bits(concat_columns({first, second}), Matrix{{1, 2, 3}, {5, 6, 7}}));
    CHECK(same_bits(concat_columns({second}), second));
    CHECK(same_bits(concat_columns({Tensor3{{{1}, {2}}}, Tensor3{{{3, 4}, {5, 6}}}}), Tensor3{{{1, 3, 4}, {2, 5, 6}}}));
    CHECK_THROWS_WITH(concat_columns({first, Matrix{{1}}}),
                      ContainsSubstring("first (2, 2) and another (1, 1) must agree in n"));
}

TEST_CASE("concat_columns refuses parts of different length, and an empty list", "[ops][concat]")
{
    const std::vector<Matrix> uneven{Matrix(Matrix::shape_type{2, 1}), Matrix(Matrix::shape_type{3, 1})};
    CHECK_THROWS_AS(concat_columns(uneven), ShapeError);
    CHECK_THROWS_WITH(concat_columns(uneven), ContainsSubstring("first (2, 1) and another (3, 1) must agree in n"));
    // As many tokens in all, shared out differently: that is not side by side.
    const std::vector<Tensor3> regrouped{Tensor3(Tensor3::shape_type{2, 3, 1}), Tensor3(Tensor3::shape_type{3, 2, 1})};
    CHECK_THROWS_AS(concat_columns(regrouped), ShapeError);
    CHECK_THROWS_WITH(concat_columns(regrouped), ContainsSubstring("must agree in b"));
    CHECK_THROWS_AS(concat_columns(std::vector<Matrix>{}), std::logic_error);
}

TEST_CASE("columns are the features from begin up to end", "[ops][concat]")
{
    const Matrix x{{1, 2, 3}, {4, 5, 6}};
    CHECK(same_bits(columns(x, 0, 2), Matrix{{1, 2}, {4, 5}}));
    CHECK(same_bits(columns(x, 2, 3), Matrix{{3}, {6}}));
    CHECK(same_bits(columns(x, 0, 3), x));
    CHECK(shape_of(columns(x, 3, 3)) == Shape{2, 0});
    CHECK(same_bits(columns(Tensor3{{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}, 1, 2), Tensor3{{{2}, {4}}, {{6}, {8}}}));
}

TEST_CASE("columns() of concatenated parts gives the parts", "[ops][concat]")
{
    Numbers numbers(2);
    const Matrix first = numbers.matrix(3, 2);
    const Matrix second = numbers.matrix(3, 4);
    const Matrix both = concat_columns(std::vector<Matrix>{first, second});
    CHECK(same_bits(columns(both, 0, 2), first));
    CHECK(same_bits(columns(both, 2, 6), second));
}

TEST_CASE("columns that are not there are refused", "[ops][concat]")
{
    const Matrix x(Matrix::shape_type{2, 3});
    CHECK_THROWS_AS(columns(x, 0, 4), ShapeError);
    CHECK_THROWS_AS(columns(x, 2, 1), ShapeError);
    CHECK_THROWS_WITH(columns(x, 1, 4), ContainsSubstring("columns: x (2, 3) has no features 1 to 4"));
    CHECK_THROWS_AS(columns(Tensor3(Tensor3::shape_type{1, 2, 3}), 3, 4), ShapeError);
}

TEST_CASE("rows are taken by their numbers, in any order and as often as asked", "[ops][concat]")
{
    const Matrix table{{1, 2}, {3, 4}, {5, 6}};
    CHECK(same_bits(take_rows(table, Integers{2, 0, 0}), Matrix{{5, 6}, {1, 2}, {1, 2}}));
    CHECK(shape_of(take_rows(table, Vector(Vector::shape_type{0}))) == Shape{0, 2});
    CHECK(shape_of(take_rows(Matrix(Matrix::shape_type{2, 0}), Integers{1})) == Shape{1, 0});
}

TEST_CASE("a number that is no row of the table is refused", "[ops][concat]")
{
    const Matrix table{{1, 2}, {3, 4}};
    for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{2}, std::int64_t{1} << 62}) {
        CAPTURE(id);
        CHECK_THROWS_AS(take_rows(table, Integers{0, id}), ShapeError);
    }
    CHECK_THROWS_WITH(take_rows(table, Integers{0, 2}),
                      ContainsSubstring("take_rows: ids[1] is 2, but table (2, 2) has no such row"));
}

TEST_CASE("concat_columns of no parts is refused for matrices and for batches", "[ops]")
{
    CHECK_THROWS_AS(concat_columns(std::vector<Matrix>{}), std::logic_error);
    CHECK_THROWS_AS(concat_columns(std::vector<Tensor3>{}), std::logic_error);
}
