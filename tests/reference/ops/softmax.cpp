#include "attn/reference/ops/softmax.hpp"

#include "by_hand.hpp"
#include "generators.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::test;

namespace {

double total_by_hand(const Matrix& weights, std::size_t row)
{
    double total = 0;
    for (std::size_t j = 0; j < weights.shape(1); ++j)
        total += weights(row, j);
    return total;
}

} // namespace

TEST_CASE("softmax is the quotient of exponentials, row by row", "[ops][softmax]")
{
    Numbers numbers(1);
    for (const std::size_t n : {1, 2, 5})
        for (const std::size_t m : {1, 2, 5}) {
            CAPTURE(n, m);
            const Matrix scores = numbers.matrix(n, m);
            CHECK(close(softmax(scores), softmax_by_hand(scores), 1e-15));
        }
}

TEST_CASE("each row of softmax is positive and sums to one", "[ops][softmax]")
{
    const Matrix weights = softmax(Numbers(2).matrix(20, 7));
    for (std::size_t i = 0; i < weights.shape(0); ++i) {
        CHECK(std::abs(total_by_hand(weights, i) - 1) < 1e-15);
        for (std::size_t j = 0; j < weights.shape(1); ++j)
            CHECK(weights(i, j) > 0);
    }
}

TEST_CASE("softmax does not change when a row's scores are all raised by the same", "[ops][softmax]")
{
    // Whole numbers, so that raising them loses no digit.
    const Matrix scores{{1, 5, -3}, {0, 0, 2}};
    const Matrix raised{{1001, 1005, 997}, {-7, -7, -5}};
    CHECK(same_bits(softmax(scores), softmax(raised)));
}

TEST_CASE("equal scores get equal weights", "[ops][softmax]")
{
    CHECK(same_bits(softmax(Matrix{{3, 3, 3, 3}}), Matrix{{0.25, 0.25, 0.25, 0.25}}));
    CHECK(same_bits(softmax(Matrix{{-7}, {0}}), Matrix{{1}, {1}}));
}

TEST_CASE("huge scores neither overflow nor vanish", "[ops][softmax]")
{
    CHECK(same_bits(softmax(Vector{1e308, 1e308}), Vector{0.5, 0.5}));
    CHECK(same_bits(softmax(Vector{-1e308, -1e308}), Vector{0.5, 0.5}));
    CHECK(same_bits(softmax(Vector{1e308, -1e308}), Vector{1, 0}));
    CHECK(same_bits(softmax(Vector{1000, 0}), Vector{1, 0}));
}

TEST_CASE("a score of minus infinity gets weight 0, and the others get the weights that they have without it",
          "[ops][softmax][mask]")
{
    const Vector weights = softmax(Vector{1, -infinity, 2});
    const Vector without = softmax(Vector{1, 2});
    CHECK(weights(1) == 0);
    CHECK(weights(0) == without(0));
    CHECK(weights(2) == without(1));
}

TEST_CASE("softmax of a row of minus infinities is zeros, and other rows do not change", "[ops][softmax][mask]")
{
    const Matrix weights = softmax(Matrix{{-infinity, -infinity}, {0, 0}, {-infinity, -infinity}});
    CHECK(same_bits(weights, Matrix{{0, 0}, {0.5, 0.5}, {0, 0}}));
    CHECK(same_bits(softmax(Vector{-infinity}), Vector{0}));
}

TEST_CASE("NaN in a row makes that row NaN, wherever it stands, and no other", "[ops][softmax]")
{
    const Matrix weights = softmax(Matrix{{not_a_number, 1, 2},
                                          {1, not_a_number, 2},
                                          {1, 2, not_a_number},
                                          {-infinity, not_a_number, -infinity},
                                          {1, 1, 1}});
    for (std::size_t i = 0; i < 4; ++i) {
        CAPTURE(i);
        CHECK(std::isnan(total_by_hand(weights, i)));
        for (std::size_t j = 0; j < 3; ++j)
            CHECK(std::isnan(weights(i, j)));
    }
    CHECK(close(row_by_hand(weights, 4), Matrix{{1.0 / 3, 1.0 / 3, 1.0 / 3}}));
}

TEST_CASE("softmax of a row with plus infinity does not sum to a number", "[ops][softmax]")
{
    CHECK(std::isnan(total_by_hand(softmax(Matrix{{infinity, 1}}), 0)));
}

TEST_CASE("softmax of an empty tensor is empty and has the same shape", "[ops][softmax]")
{
    CHECK(shape_of(softmax(Matrix(Matrix::shape_type{0, 3}))) == Shape{0, 3});
    CHECK(shape_of(softmax(Matrix(Matrix::shape_type{3, 0}))) == Shape{3, 0});
    CHECK(shape_of(softmax(Vector(Vector::shape_type{0}))) == Shape{0});
}

TEST_CASE("softmax of a vector is softmax of a matrix of one row", "[ops][softmax]")
{
    const Matrix scores = Numbers(3).matrix(1, 6);
    CHECK(to_array(softmax(scores)).values ==
          to_array(softmax(from_array<Vector>({{6}, to_array(scores).values}))).values);
}

TEST_CASE("softmax's jacobian is what central differences measure", "[ops][softmax]")
{
    Numbers numbers(4);
    for (const std::size_t m : {1, 2, 6}) {
        const Vector scores = numbers.vector(m);
        const Matrix jacobian = softmax_jacobian(softmax(scores));
        REQUIRE(shape_of(jacobian) == Shape{m, m});
        const double step = 1e-5;
        for (std::size_t j = 0; j < m; ++j) {
            Vector above = scores;
            Vector below = scores;
            above(j) += step;
            below(j) -= step;
            const Vector up = softmax(above);
            const Vector down = softmax(below);
            for (std::size_t i = 0; i < m; ++i) {
                CAPTURE(m, i, j);
                CHECK(std::abs(jacobian(i, j) - (up(i) - down(i)) / (2 * step)) < 1e-9);
            }
        }
    }
}

TEST_CASE("softmax's jacobian is symmetric, and each row sums to zero", "[ops][softmax]")
{
    const Matrix jacobian = softmax_jacobian(softmax(Numbers(5).vector(7)));
    CHECK(same_bits(jacobian, transpose_by_hand(jacobian)));
    for (std::size_t i = 0; i < 7; ++i)
        CHECK(std::abs(total_by_hand(jacobian, i)) < 1e-15);
}

TEST_CASE("where softmax is 0 and 1 exactly, its jacobian is zero", "[ops][softmax]")
{
    const Matrix jacobian = softmax_jacobian(softmax(Vector{0, 1000}));
    CHECK(close(jacobian, Matrix{{0, 0}, {0, 0}}, 0));
}

TEST_CASE("softmax of a batch is softmax of each sequence's scores", "[ops][softmax][batch]")
{
    Numbers numbers(6);
    Tensor3 scores = numbers.tensor3(3, 4, 5);
    for (std::size_t j = 0; j < 5; ++j)
        scores(1, 2, j) = -infinity;
    const Tensor3 weights = softmax(scores);
    REQUIRE(shape_of(weights) == Shape{3, 4, 5});
    for (std::size_t b = 0; b < 3; ++b) {
        Matrix sequence(Matrix::shape_type{4, 5});
        Matrix expected(Matrix::shape_type{4, 5});
        for (std::size_t i = 0; i < 4; ++i)
            for (std::size_t j = 0; j < 5; ++j) {
                sequence(i, j) = scores(b, i, j);
                expected(i, j) = weights(b, i, j);
            }
        CHECK(close(expected, softmax_by_hand(sequence), 1e-15));
        CHECK(same_bits(expected, softmax(sequence)));
    }
    CHECK(weights(1, 2, 0) == 0);
}

TEST_CASE("softmax of a batch without numbers has its shape", "[ops][softmax][batch]")
{
    CHECK(shape_of(softmax(Tensor3(Tensor3::shape_type{2, 0, 3}))) == Shape{2, 0, 3});
    CHECK(shape_of(softmax(Tensor3(Tensor3::shape_type{2, 3, 0}))) == Shape{2, 3, 0});
}

TEST_CASE("a batch of no sequences keeps its shape", "[ops][softmax]")
{
    CHECK(shape_of(softmax(Tensor3(Tensor3::shape_type{0, 2, 3}))) == Shape{0, 2, 3});
}

TEST_CASE("softmax in the storage of its scores gives the same bits", "[ops][softmax]")
{
    Numbers numbers(7);
    Matrix scores = numbers.matrix(5, 6);
    for (std::size_t j = 0; j < 6; ++j)
        scores(2, j) = -infinity; // a row that can attend to nothing
    scores(3, 4) = -infinity;
    const Matrix weights = softmax(scores);
    const double* storage = scores.data();
    const Matrix in_place = softmax(std::move(scores));
    CHECK(same_bits(in_place, weights));
    CHECK(in_place.data() == storage);
}
