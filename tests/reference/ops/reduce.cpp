#include "attn/reference/ops/reduce.hpp"

#include "by_hand.hpp"
#include "generators.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::test;

namespace {

const Matrix numbers_2_by_3{{1, -5, 3}, {4, 2, -6}};

} // namespace

TEST_CASE("sums, means and maxima of all numbers", "[ops][reduce]")
{
    CHECK(sum_all(numbers_2_by_3) == -1);
    CHECK(mean_all(numbers_2_by_3) == -1.0 / 6);
    CHECK(max_all(numbers_2_by_3) == 4);
    CHECK(sum_all(Vector{1, 2, 4}) == 7);
    CHECK(mean_all(Vector{1, 2, 6}) == 3);
    CHECK(max_all(Vector{-3, -1, -2}) == -1);
}

TEST_CASE("a reduction along an axis removes that axis", "[ops][reduce]")
{
    CHECK(same_bits(sum_along(numbers_2_by_3, 0), Vector{5, -3, -3}));
    CHECK(same_bits(sum_along(numbers_2_by_3, 1), Vector{-1, 0}));
    CHECK(same_bits(max_along(numbers_2_by_3, 0), Vector{4, 2, 3}));
    CHECK(same_bits(max_along(numbers_2_by_3, 1), Vector{3, 4}));
}

TEST_CASE("reductions along an axis are plain loops, at every small shape", "[ops][reduce]")
{
    Numbers numbers(1);
    for (const std::size_t n : {1, 2, 3, 9})
        for (const std::size_t m : {1, 2, 3, 9}) {
            CAPTURE(n, m);
            const Matrix matrix = numbers.matrix(n, m);
            Vector sums(Vector::shape_type{n}, 0.0);
            Vector largest(Vector::shape_type{n}, -infinity);
            for (std::size_t i = 0; i < n; ++i)
                for (std::size_t j = 0; j < m; ++j) {
                    sums(i) += matrix(i, j);
                    largest(i) = std::max(largest(i), matrix(i, j));
                }
            CHECK(close(sum_along(matrix, 1), sums));
            CHECK(same_bits(max_along(matrix, 1), largest));
            CHECK(close(sum_along(transpose_by_hand(matrix), 0), sums));
            CHECK(same_bits(max_along(transpose_by_hand(matrix), 0), largest));
        }
}

TEST_CASE("of no numbers, the sum is zero, the maximum is minus infinity, the mean is NaN", "[ops][reduce]")
{
    const Vector none(Vector::shape_type{0});
    const Matrix no_rows(Matrix::shape_type{0, 3});
    CHECK(sum_all(none) == 0);
    CHECK(sum_all(no_rows) == 0);
    CHECK(max_all(none) == -infinity);
    CHECK(max_all(no_rows) == -infinity);
    CHECK(std::isnan(mean_all(none)));
    CHECK(std::isnan(mean_all(no_rows)));
}

TEST_CASE("along an empty axis, every sum is zero and every largest minus infinity", "[ops][reduce]")
{
    const Matrix no_rows(Matrix::shape_type{0, 2});
    CHECK(same_bits(sum_along(no_rows, 0), Vector{0, 0}));
    CHECK(same_bits(max_along(no_rows, 0), Vector{-infinity, -infinity}));
    CHECK(sum_along(no_rows, 1).size() == 0);
    CHECK(max_along(no_rows, 1).size() == 0);
    const Matrix no_columns(Matrix::shape_type{2, 0});
    CHECK(same_bits(sum_along(no_columns, 1), Vector{0, 0}));
    CHECK(max_along(no_columns, 0).size() == 0);
}

TEST_CASE("the maximum of minus infinities is minus infinity, not the smallest finite number", "[ops][reduce]")
{
    // xtensor's amax begins at the smallest finite number, and says that.
    CHECK(max_all(Vector{-infinity, -infinity}) == -infinity);
    CHECK(max_all(Matrix{{-infinity}}) == -infinity);
    CHECK(same_bits(max_along(Matrix{{-infinity, -infinity}, {-infinity, 1}}, 0), Vector{-infinity, 1}));
    CHECK(same_bits(max_along(Matrix{{-infinity, -infinity}, {-infinity, 1}}, 1), Vector{-infinity, 1}));
    CHECK(max_all(Vector{-infinity, -3}) == -3);
    CHECK(sum_all(Vector{-infinity, 3}) == -infinity);
}

TEST_CASE("NaN reaches a sum, a mean and a maximum, wherever it stands", "[ops][reduce]")
{
    const double nan = std::nan("");
    for (const Vector& vector : {Vector{nan, 1, 2}, Vector{1, nan, 2}, Vector{1, 2, nan}}) {
        CHECK(std::isnan(sum_all(vector)));
        CHECK(std::isnan(max_all(vector)));
    }
    CHECK(std::isnan(max_along(Matrix{{1, nan}, {1, 2}}, 1)(0)));
    CHECK(max_along(Matrix{{1, nan}, {1, 2}}, 1)(1) == 2);
    CHECK(std::isnan(sum_all(Vector{1, nan, 2})));
    CHECK(std::isnan(mean_all(Matrix{{1, nan}})));
    CHECK(std::isnan(sum_along(Matrix{{1, nan}, {1, 2}}, 1)(0)));
    CHECK(sum_along(Matrix{{1, nan}, {1, 2}}, 1)(1) == 3);
}

TEST_CASE("means along an axis are plain loops, at every small shape", "[ops][reduce]")
{
    Numbers numbers(2);
    for (const std::size_t n : {1, 2, 3, 9})
        for (const std::size_t m : {1, 2, 3, 9}) {
            CAPTURE(n, m);
            const Matrix matrix = numbers.matrix(n, m);
            Vector means(Vector::shape_type{n}, 0.0);
            for (std::size_t i = 0; i < n; ++i)
                for (std::size_t j = 0; j < m; ++j)
                    means(i) += matrix(i, j) / static_cast<double>(m);
            CHECK(close(mean_along(matrix, 1), means));
            CHECK(close(mean_along(transpose_by_hand(matrix), 0), means));
        }
    CHECK(same_bits(mean_along(Matrix{{1, 3}, {5, 9}}, 0), Vector{3, 6}));
    CHECK(same_bits(mean_along(Matrix{{1, 3}, {5, 9}}, 1), Vector{2, 7}));
}

TEST_CASE("the mean along an empty axis is NaN, and a matrix without rows has no row means", "[ops][reduce]")
{
    const Vector means = mean_along(Matrix(Matrix::shape_type{0, 2}), 0);
    REQUIRE(means.size() == 2);
    CHECK(std::isnan(means(0)));
    CHECK(std::isnan(means(1)));
    CHECK(mean_along(Matrix(Matrix::shape_type{0, 2}), 1).size() == 0);
    CHECK(std::isnan(mean_along(Matrix{{1, std::nan("")}, {1, 2}}, 1)(0)));
    CHECK(mean_along(Matrix{{1, std::nan("")}, {1, 2}}, 1)(1) == 1.5);
    CHECK_THROWS_AS(mean_along(Matrix{{1}}, 2), std::logic_error);
}
