#include "attn/reference/ops/activation.hpp"

#include "by_hand.hpp"
#include "generators.hpp"
#include "test.hpp"

using namespace attn;
using namespace attn::test;

TEST_CASE("relu keeps what is positive and zeroes the rest", "[ops][activation]")
{
    CHECK(close(relu(Matrix{{-2, 0, 3}, {-infinity, 1e-300, 0.5}}), Matrix{{0, 0, 3}, {0, 1e-300, 0.5}}, 0));
    CHECK(relu(Matrix{{infinity}})(0, 0) == infinity);
}

TEST_CASE("no activation hides NaN", "[ops][activation]")
{
    const Matrix x{{1, not_a_number}};
    CHECK(std::isnan(relu(x)(0, 1)));
    CHECK(std::isnan(sigmoid(x)(0, 1)));
    CHECK(std::isnan(attn::tanh(x)(0, 1)));
    CHECK_FALSE(std::isnan(relu(x)(0, 0)));
    CHECK_FALSE(std::isnan(sigmoid(x)(0, 0)));
    CHECK(std::isnan(attn::tanh(Tensor3{{{not_a_number}}})(0, 0, 0)));
    CHECK(std::isnan(silu(x)(0, 1)));
    CHECK(std::isnan(quick_gelu(x)(0, 1)));
}

TEST_CASE("sigmoid equals 1 / (1 + exp(-x)) where that does not overflow", "[ops][activation]")
{
    const Matrix x = Numbers(1).matrix(5, 4);
    const Matrix y = sigmoid(x);
    for (std::size_t i = 0; i < 5; ++i)
        for (std::size_t j = 0; j < 4; ++j)
            CHECK(std::abs(y(i, j) - 1 / (1 + std::exp(-x(i, j)))) < 1e-15);
    CHECK(sigmoid(Matrix{{0}})(0, 0) == 0.5);
}

TEST_CASE("sigmoid saturates without overflow", "[ops][activation]")
{
    CHECK(same_bits(sigmoid(Matrix{{1000, -1000, infinity, -infinity}}), Matrix{{1, 0, 1, 0}}));
    CHECK(sigmoid(Matrix{{-700}})(0, 0) > 0);
}

TEST_CASE("sigmoid(x) and sigmoid(-x) sum to one", "[ops][activation]")
{
    const Matrix x = Numbers(2).matrix(4, 4);
    CHECK(close(Matrix(sigmoid(x) + sigmoid(Matrix(-x))), Matrix(Matrix::shape_type{4, 4}, 1.0), 1e-15));
}

TEST_CASE("tanh is the C library's, element by element", "[ops][activation]")
{
    const Tensor3 x = Numbers(3).tensor3(2, 3, 4);
    const Tensor3 y = attn::tanh(x);
    for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t j = 0; j < 3; ++j)
            for (std::size_t k = 0; k < 4; ++k)
                CHECK(std::abs(y(i, j, k) - std::tanh(x(i, j, k))) < 1e-15);
    CHECK(same_bits(attn::tanh(Matrix{{1000, -1000, 0}}), Matrix{{1, -1, 0}}));
}

TEST_CASE("activations of an empty matrix are empty and have the same shape", "[ops][activation]")
{
    const Matrix none(Matrix::shape_type{0, 3});
    CHECK(shape_of(relu(none)) == Shape{0, 3});
    CHECK(shape_of(sigmoid(none)) == Shape{0, 3});
    CHECK(shape_of(attn::tanh(none)) == Shape{0, 3});
}

TEST_CASE("gelu is x times the normal distribution function, by the C library's erf", "[ops][activation]")
{
    const Matrix x = Numbers(4).matrix(6, 5);
    const Matrix y = gelu(x);
    for (std::size_t i = 0; i < 6; ++i)
        for (std::size_t j = 0; j < 5; ++j)
            CHECK(std::abs(y(i, j) - x(i, j) * (1 + std::erf(x(i, j) / std::sqrt(2.0))) / 2) < 1e-15);
    CHECK(std::abs(gelu(Matrix{{1}})(0, 0) - 0.8413447460685429) < 1e-15); // the table's value at one sigma
}

TEST_CASE("gelu_tanh is the published approximation, by the C library's tanh", "[ops][activation]")
{
    const Matrix x = Numbers(5).matrix(6, 5);
    const Matrix y = gelu_tanh(x);
    const double slope = std::sqrt(2 / std::acos(-1.0));
    for (std::size_t i = 0; i < 6; ++i)
        for (std::size_t j = 0; j < 5; ++j) {
            const double v = x(i, j);
            CHECK(std::abs(y(i, j) - v / 2 * (1 + std::tanh(slope * (v + 0.044715 * std::pow(v, 3))))) < 1e-15);
        }
}

TEST_CASE("gelu and its approximation are apart, by less than a thousandth", "[ops][activation]")
{
    const Matrix x = Matrix(Numbers(6).matrix(20, 20) * 3.0);
    double furthest = 0;
    const Matrix distance = gelu(x) - gelu_tanh(x);
    for (const double d : distance)
        furthest = std::max(furthest, std::abs(d));
    CHECK(furthest < 1e-3);
    CHECK(furthest > 1e-5);
}

TEST_CASE("quick_gelu is x sigmoid(1.702 x), and as far from gelu as is published", "[ops][activation]")
{
    const Matrix x = Numbers(7).matrix(20, 20);
    const Matrix y = quick_gelu(x), exact = gelu(x);
    for (std::size_t i = 0; i < 20; ++i)
        for (std::size_t j = 0; j < 20; ++j) {
            CHECK(std::abs(y(i, j) - x(i, j) / (1 + std::exp(-1.702 * x(i, j)))) < 1e-15);
            CHECK(std::abs(y(i, j) - exact(i, j)) < 0.021);
        }
    CHECK(same_bits(quick_gelu(Matrix{{1000, 0, -1000}}), Matrix{{1000, 0, -0.0}}));
}

TEST_CASE("both gelus are zero at zero and far below it, and x far above it", "[ops][activation]")
{
    for (const Matrix& y : {gelu(Matrix{{0, -50, 50, 1e200}}), gelu_tanh(Matrix{{0, -50, 50, 1e100}})}) {
        CHECK(y(0, 0) == 0);
        CHECK(y(0, 1) == 0);
        CHECK(y(0, 2) == 50);
        CHECK(y(0, 3) >= 1e100);
    }
    CHECK(std::isnan(gelu(Matrix{{not_a_number}})(0, 0)));
    CHECK(std::isnan(gelu_tanh(Matrix{{not_a_number}})(0, 0)));
    CHECK(shape_of(gelu(Matrix(Matrix::shape_type{0, 3}))) == Shape{0, 3});
    CHECK(shape_of(gelu_tanh(Matrix(Matrix::shape_type{0, 3}))) == Shape{0, 3});
}

TEST_CASE("sigmoid and tanh of a vector are those of a row", "[ops][activation]")
{
    const Vector x{-800, -2, -0.5, 0, 0.25, 3, 800};
    const Matrix row = xt::view(x, xt::newaxis(), xt::all());
    CHECK(same_bits(sigmoid(x), Vector(xt::row(sigmoid(row), 0))));
    CHECK(same_bits(attn::tanh(x), Vector(xt::row(attn::tanh(row), 0))));
}
