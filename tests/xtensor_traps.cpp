// The traps of docs/xtensor_pitfalls.md: attn's own operations give the right numbers in the very situations in which
// plain xtensor gives wrong ones, and no file leaves the rooms in which that is taken care of.

#include "by_hand.hpp"
#include "generators.hpp"
#include "sources.hpp"
#include "test.hpp"

#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <xtensor-blas/xlinalg.hpp>

#include <cctype>

using namespace attn;
using namespace attn::test;

namespace {

const Matrix tokens{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}};

} // namespace

// Trap 1: a reducer that keeps its dimensions, inside a larger expression. What plain xtensor does there is not run
// here: it reads out of bounds.

TEST_CASE("trap 1: each row less its largest", "[xtensor]")
{
    const Matrix x{{2, 4, 4}, {4, 16, 12}, {4, 12, 10}};
    const Vector largest = max_along(x, 1);
    const Matrix shifted = x - xt::view(largest, xt::all(), xt::newaxis());
    CHECK(same_bits(shifted, Matrix{{-2, 0, 0}, {-12, 0, -4}, {-8, 0, -2}}));
    CHECK(close(softmax(x), softmax_by_hand(x), 1e-15));
}

TEST_CASE("trap 1: rows over their sums, and columns less their means, at sizes where strides vanish", "[xtensor]")
{
    Numbers numbers(1);
    for (const std::size_t n : {1, 2, 5})
        for (const std::size_t m : {1, 3, 8}) {
            CAPTURE(n, m);
            const Matrix x = numbers.matrix(n, m);
            const Vector sums = sum_along(x, 1);
            const Vector column_sums = sum_along(x, 0);
            const Matrix over_sums = x / xt::view(sums, xt::all(), xt::newaxis());
            const Matrix centered = x - column_sums / static_cast<double>(n);
            Matrix over_sums_by_hand(x.shape());
            Matrix centered_by_hand(x.shape());
            for (std::size_t i = 0; i < n; ++i)
                for (std::size_t j = 0; j < m; ++j) {
                    double row_sum = 0;
                    for (std::size_t k = 0; k < m; ++k)
                        row_sum += x(i, k);
                    double column_sum = 0;
                    for (std::size_t k = 0; k < n; ++k)
                        column_sum += x(k, j);
                    over_sums_by_hand(i, j) = x(i, j) / row_sum;
                    centered_by_hand(i, j) = x(i, j) - column_sum / static_cast<double>(n);
                }
            CHECK(close(over_sums, over_sums_by_hand, 1e-9));
            CHECK(close(centered, centered_by_hand));
        }
}

// Trap 2: xt::linalg::dot is numpy.dot.

TEST_CASE("trap 2: matmul of three axes goes pair by pair, which xtensor's dot does not", "[xtensor]")
{
    Numbers numbers(2);
    const Tensor3 left = numbers.tensor3(2, 3, 4);
    const Tensor3 right = numbers.tensor3(2, 4, 5);
    const Tensor3 product = matmul(left, right);
    REQUIRE(shape_of(product) == Shape{2, 3, 5});
    for (std::size_t b = 0; b < 2; ++b)
        for (std::size_t i = 0; i < 3; ++i)
            for (std::size_t j = 0; j < 5; ++j) {
                double sum = 0;
                for (std::size_t k = 0; k < 4; ++k)
                    sum += left(b, i, k) * right(b, k, j);
                CHECK(std::abs(product(b, i, j) - sum) < 1e-12);
            }

    const xt::xarray<double> dot_of_numpy = xt::linalg::dot(left, right);
    CHECK(dot_of_numpy.dimension() == 4); // every matrix of the left with every matrix of the right
}

// Trap 3: a product of operands that share storage.

TEST_CASE("trap 3: some rows of a matrix times its transpose", "[xtensor]")
{
    const Matrix expected{{2, 0, 2}, {0, 8, 4}};
    const Matrix first_two = xt::view(tokens, xt::range(0, 2), xt::all());
    CHECK(same_bits(matmul(first_two, transpose(tokens)), expected));
    CHECK(same_bits(matmul(tokens, transpose(tokens)), product_by_hand(tokens, transpose_by_hand(tokens))));

    const xt::xarray<double> plain =
        xt::linalg::dot(xt::view(tokens, xt::range(0, 2), xt::all()), xt::transpose(tokens));
    if (plain.shape(1) == 3)
        WARN("this xtensor-blas has mended the short cut of trap 3");
}

// Trap 4: operands that are neither row-major nor column-major.

TEST_CASE("trap 4: column slices", "[xtensor]")
{
    const Matrix w{{1, 2}, {3, 4}};
    const Matrix expected{{1, 2}, {6, 8}, {4, 6}};
    const Matrix first_columns = xt::view(tokens, xt::all(), xt::range(0, 2));
    CHECK(same_bits(matmul(first_columns, w), expected));
    const Matrix last_columns = xt::view(tokens, xt::all(), xt::range(2, 4));
    CHECK(same_bits(matmul(last_columns, w), product_by_hand(last_columns, w)));

    try {
        const Matrix plain = xt::linalg::dot(xt::view(tokens, xt::all(), xt::range(0, 2)), w);
        CHECK(same_bits(plain, expected));
        WARN("this xtensor-blas has mended trap 4");
    } catch (const std::runtime_error& error) {
        CHECK_THAT(error.what(), ContainsSubstring("No valid layout chosen"));
    }
}

TEST_CASE("trap 4: heads cut out of permuted axes", "[xtensor]")
{
    // (n, h, d) to (h, n, d), as multi-head attention does it.
    const Tensor3 packed = Numbers(3).tensor3(4, 2, 3);
    const Tensor3 heads = xt::transpose(packed, {1, 0, 2});
    const Tensor3 turned = xt::transpose(packed, {1, 2, 0});
    const Tensor3 scores = matmul(heads, turned);
    REQUIRE(shape_of(scores) == Shape{2, 4, 4});
    for (std::size_t h = 0; h < 2; ++h) {
        const Matrix head = xt::view(packed, xt::all(), h, xt::all());
        Matrix head_by_hand(Matrix::shape_type{4, 3});
        for (std::size_t i = 0; i < 4; ++i)
            for (std::size_t k = 0; k < 3; ++k)
                head_by_hand(i, k) = packed(i, h, k);
        const Matrix expected = product_by_hand(head_by_hand, transpose_by_hand(head_by_hand));
        CHECK(same_bits(head, head_by_hand));
        CHECK(close(matmul(head, transpose(head)), expected));
        CHECK(close(Matrix(xt::view(scores, h, xt::all(), xt::all())), expected));
    }
}

// What keeps attn out of the traps.

namespace {

using Findings = std::vector<std::string>;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Where a word stands by itself: "amax" in "xt::amax(x)", not in "amaxima".
bool has_word(const std::string& code, const std::string& word)
{
    for (std::size_t at = code.find(word); at != std::string::npos; at = code.find(word, at + 1)) {
        const bool begins = at == 0 || !is_word(code[at - 1]);
        const bool ends = at + word.size() == code.size() || !is_word(code[at + word.size()]);
        if (begins && ends)
            return true;
    }
    return false;
}

/// xtensor's reducers, in place of which attn has its own.
Findings reducers_in(const std::string& code)
{
    Findings found;
    for (const std::string name :
         {"sum", "prod", "mean", "average", "variance", "stddev", "amax", "amin", "minmax", "norm_l0", "norm_l1",
          "norm_l2", "norm_sq", "norm_linf", "reduce", "nansum", "nanmean", "keep_dims", "linalg"})
        if (has_word(code, "xt::" + name))
            found.push_back("xt::" + name);
    if (has_word(code, "using namespace xt"))
        found.push_back("using namespace xt");
    return found;
}

/// Every `auto` that is bound to an expression of xtensor's, up to its semicolon. A lambda may use xtensor where it
/// says what it returns, or returns none of xtensor's functions.
Findings lazy_autos_in(const std::string& code)
{
    Findings found;
    for (std::size_t at = code.find("auto"); at != std::string::npos; at = code.find("auto", at + 1)) {
        const bool is_whole = (at == 0 || !is_word(code[at - 1])) && at + 4 < code.size() && !is_word(code[at + 4]);
        const std::size_t end = std::min(code.find(';', at), code.size());
        const std::string statement = code.substr(at, end - at);
        const std::size_t assignment = statement.find('=');
        if (!is_whole || assignment == std::string::npos)
            continue;
        const std::size_t begin = statement.find_first_not_of(" \n", assignment + 1);
        if (begin == std::string::npos)
            continue;
        const std::string bound = statement.substr(begin);
        const bool is_lambda = bound.front() == '[';
        const bool is_lazy =
            is_lambda ? bound.find("->") == std::string::npos && bound.find("return xt::") != std::string::npos
                      : bound.find("xt::") != std::string::npos;
        if (is_lazy)
            found.push_back(statement);
    }
    return found;
}

} // namespace

TEST_CASE("no reducer of xtensor's is used", "[xtensor][source]")
{
    for (const SourceFile& file : source_files({"include", "src", "lessons"})) {
        CAPTURE(file.path);
        CHECK(reducers_in(without_comments(file.text)) == Findings{});
    }
}

TEST_CASE("no auto is bound to an expression of xtensor's", "[xtensor][source]")
{
    for (const SourceFile& file : source_files({"include", "src", "lessons"})) {
        CAPTURE(file.path);
        CHECK(lazy_autos_in(without_comments(file.text)) == Findings{});
    }
}

TEST_CASE("the search for reducers finds them, and only them", "[xtensor][source]")
{
    CHECK(reducers_in("x - xt::amax(x, {1}, xt::keep_dims)") == Findings{"xt::amax", "xt::keep_dims"});
    CHECK(reducers_in("using namespace xt;") == Findings{"using namespace xt"});
    CHECK(reducers_in("attn::sum_all(x); xt::summary; text::sum(x)") == Findings{});
    CHECK(reducers_in(without_comments("// xt::sum\n/* xt::mean */ \"//\"; xt::amin(x)")) == Findings{"xt::amin"});
}

TEST_CASE("the search for lazy autos finds them, and only them", "[xtensor][source]")
{
    CHECK(lazy_autos_in("const auto half = xt::exp(x);").size() == 1);
    CHECK(lazy_autos_in("auto&& rows =\n    1.0 / xt::view(x, 0);").size() == 1);
    CHECK(lazy_autos_in("const auto f = [&] { return xt::row(x, 0); };").size() == 1);
    CHECK(lazy_autos_in("const auto f = [&]() -> Vector { return xt::row(x, 0); };").empty());
    CHECK(lazy_autos_in("const auto f = [&] { return Vector(xt::row(x, 0)); };").empty());
    CHECK(lazy_autos_in("const Vector x = xt::exp(y); const auto n = x.size(); automatic = xt::exp(y);").empty());
}
