#include "attn/formula/chain.hpp"

#include "reference/layers/examples.hpp"
#include "test.hpp"

#include "attn/formula/expression.hpp"
#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/layers/convolution.hpp"

using namespace attn;
using namespace attn::formula;
using namespace attn::test;

namespace {

Step step(std::string path, std::string formula)
{
    return {std::move(path), std::move(formula), {}, "", {}, {{1}, {1}}};
}

std::size_t products_in(std::vector<Step> steps) { return products_in_line({std::move(steps), {}}); }

std::size_t gru_products(std::size_t n, ResetGate reset)
{
    Numbers numbers(n);
    const Matrix x = numbers.matrix(n, 3);
    const RecurrentWeights weights{{{.forward = random_cell(numbers, 3, 2, 3)}}};
    return products_in_line(recorded([&](const Trace& trace) { gru(x, weights, {reset}, trace); }).recording());
}

} // namespace

TEST_CASE("matrix products that need each other's results are counted as a chain, independent ones are not",
          "[formula][chain]")
{
    CHECK(products_in_line({}) == 0);
    CHECK(products_in({step("a", "")}) == 0);
    CHECK(products_in({step("a", ""), step("b", "a @ a"), step("c", "a @ a")}) == 1);
    CHECK(products_in({step("a", ""), step("b", "a @ a"), step("c", "tanh(b) @ a")}) == 2);
    CHECK(products_in({step("a", ""), step("b", "a @ a @ a"), step("c", "a + a")}) == 2);
}

TEST_CASE("a chain goes through subscripts, but not through a size", "[formula][chain]")
{
    CHECK(products_in({step("a", ""), step("b", "a @ a"), step("c", "a[b] @ a")}) == 2);
    CHECK(products_in({step("a", ""), step("b", "a @ a"), step("c", "sum(a, axis=b) @ a")}) == 2);
    CHECK(products_in({step("a", ""), step("b", "a @ a"), step("c", "a @ a / b.shape[0]")}) == 1);
}

TEST_CASE("a name means the innermost step, as it does for verify", "[formula][chain]")
{
    CHECK(products_in({step("a", ""), step("b", "a @ a"), step("in.b", ""), step("in.c", "b @ a")}) == 1);
    CHECK(products_in({step("a", ""), step("b", "a @ a"), step("in.c", "b @ a")}) == 2);
    CHECK_THROWS_AS(products_in({step("c", "b @ b")}), FormulaError);
}

TEST_CASE("a GRU has one product in line per token, or two where the reset gate comes first",
          "[formula][chain][recurrent]")
{
    for (const std::size_t n : {1, 2, 5}) {
        CHECK(gru_products(n, ResetGate::after_product) == n);
        CHECK(gru_products(n, ResetGate::before_product) == 2 * n);
    }
}

TEST_CASE("attention has two products in line and a convolution one, whatever the length", "[formula][chain]")
{
    for (const std::size_t n : {1, 2, 7}) {
        Numbers numbers(n);
        const Matrix x = numbers.matrix(n, 3);
        const ConvolutionWeights kernel{numbers.matrix(9, 2)};
        CHECK(products_in_line(recorded([&](const Trace& trace) { convolution(x, kernel, {}, trace); }).recording()) ==
              1);
        CHECK(products_in_line(recorded([&](const Trace& trace) {
                                   scaled_dot_product_attention(x, x, x, {}, trace);
                               }).recording()) == 2);
    }
}
