#include "attn/formula/evaluate.hpp"

#include "caught.hpp"
#include "test.hpp"

#include <cmath>
#include <map>

using namespace attn;
using namespace attn::formula;

namespace {

/// Names and what they mean.
using Values = std::map<std::string, Array, std::less<>>;

Evaluated evaluate_with(std::string_view formula, const Values& tensors, const ErrorModel& errors = {})
{
    const Lookup lookup = [&](std::string_view name) -> const Array* {
        const auto found = tensors.find(name);
        return found == tensors.end() ? nullptr : &found->second;
    };
    return evaluate(formula, lookup, errors);
}

Array value_of(std::string_view formula, const Values& tensors = {}) { return evaluate_with(formula, tensors).value; }

double number(std::string_view formula, const Values& tensors = {})
{
    const Array value = value_of(formula, tensors);
    REQUIRE(value.shape == Shape{});
    return value.values[0];
}

bool equals(const Array& found, const Shape& shape, const std::vector<double>& values)
{
    return found.shape == shape && found.values == values;
}

const Array vector{{3}, {1, 2, 3}};
const Array matrix{{2, 3}, {1, 2, 3, 4, 5, 6}};
const Array cube{{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}};
const Values tensors{{"v", vector}, {"x", matrix}, {"c", cube}, {"head.0.x", {{1}, {42}}}};

} // namespace

TEST_CASE("operators bind as in NumPy", "[formula]")
{
    CHECK(number("1 + 2 * 3") == 7);
    CHECK(number("(1 + 2) * 3") == 9);
    CHECK(number("10 - 4 - 3") == 3);
    CHECK(number("12 / 2 / 3") == 2);
    CHECK(number("-2 ** 2") == -4);
    CHECK(number("2 ** 3 ** 2") == 512);
    CHECK(number("2 ** -1") == 0.5);
    CHECK(number("- - 3") == 3);
    CHECK(number("1 + 1 == 2") == 1);
    CHECK(number("1e3 / 2.5e2") == 4);
}

TEST_CASE("// rounds a quotient down, and % has the sign of the divisor, as in Python", "[formula]")
{
    CHECK(number("7 // 2 * 2 + 7 % 2") == 7);
    CHECK(number("-7 // 2") == -4);
    CHECK(number("-7 % 2") == 1);
    CHECK(number("7 % -2") == -1);
    CHECK(number("7.5 // -2") == -4);
    CHECK(number("1 // 0.1") == 9); // since 0.1 is a bit more than a tenth; floor(1 / 0.1) is 10
    CHECK(number("6 - 4 // 2 / 2") == 5);
    CHECK(std::isinf(number("1 // 0")));
    CHECK(std::isnan(number("1 % 0")));
    CHECK(value_of("v // 2", {{"v", {{2}, {5, 6}, ElementType::integer}}}).type == ElementType::integer);
    CHECK(value_of("v % 2.5", {{"v", {{2}, {5, 6}, ElementType::integer}}}).type == ElementType::real);
}

TEST_CASE("a whole quotient of rounded numbers can jump, one of exact numbers can't", "[formula]")
{
    CHECK(evaluate_with("3 // 1", {}).error[0] == 0);
    CHECK(evaluate_with("1 / 3 * 3 // 1", {}).error[0] == 1); // a third is rounded
    CHECK(evaluate_with("1 / 3 * 3 % 1", {}).error[0] >= 1);
    CHECK(evaluate_with("(0.1 + 0.2) // 3", {}).error[0] == 0);
}

TEST_CASE("NumPy's ways to write a function mean the function", "[formula]")
{
    const auto same = [](std::string_view in_numpy, std::string_view formula) {
        const Array a = value_of(in_numpy, tensors), b = value_of(formula, tensors);
        CAPTURE(in_numpy, formula);
        CHECK(identical(a, b));
    };
    same("np.exp(x)", "exp(x)");
    same("np.where(x > 2, np.inf, -np.pi)", "where(x > 2, inf, -pi)");
    same("x.sum(axis=0, keepdims=True)", "sum(x, axis=0, keepdims=True)");
    same("x.sum(1)", "sum(x, axis=1)");
    same("np.max(x, 0)", "max(x, axis=0)");
    same("(x * 2).mean(axis=-1)", "mean(x * 2, axis=-1)");
    same("x.T.reshape(2, 3)", "reshape(x.T, 2, 3)");
    same("head.0.x.sum()", "sum(head.0.x)");
    same("c.transpose(1, 0, 2).reshape(2, 4)", "reshape(permute(c, 1, 0, 2), 2, 4)");
    same("x.reshape((3, 2))", "reshape(x, 3, 2)");
    same("x.reshape(3, -1)", "reshape(x, 3, 2)");
    same("np.concatenate([x, x], axis=0)", "concat(x, x, axis=0)");
    same("np.concatenate((x, 2 * x), axis=0)", "concat(x, 2 * x, axis=0)");
    same("np.sum((x + 1) * x)", "sum((x + 1) * x)");
    same("np.arange(len(x))[:, np.newaxis]", "arange(x.shape[0])[:, None]");
    CHECK_THROWS_WITH(value_of("x.fly(1)", tensors), ContainsSubstring("there is no function fly"));
    CHECK_THROWS_WITH(value_of("np.fly(x)", tensors), ContainsSubstring("there is no function fly"));
    CHECK_THROWS_WITH(value_of("x.reshape(-1, -1)", tensors), ContainsSubstring("expected a whole number from 0"));
    CHECK_THROWS_WITH(value_of("x.reshape(4, -1)", tensors), ContainsSubstring("doesn't have as many numbers"));
    CHECK_THROWS_WITH(value_of("np.exp(x, 1)", tensors), ContainsSubstring("takes 1 arguments, not 2"));
}

TEST_CASE("a comparison gives booleans", "[formula]")
{
    CHECK(value_of("v >= 2", tensors).type == ElementType::boolean);
    CHECK(equals(value_of("v >= 2", tensors), {3}, {0, 1, 1}));
    CHECK(value_of("v != 2", tensors).type == ElementType::boolean);
    CHECK(equals(value_of("v != 2", tensors), {3}, {1, 0, 1}));
    CHECK(equals(value_of("arange(3)[:, None] >= arange(3)[None, :]"), {3, 3}, {1, 0, 0, 1, 1, 0, 1, 1, 1}));
}

TEST_CASE("@ is NumPy's matmul for vectors, matrices and stacks", "[formula]")
{
    CHECK(number("v @ v", tensors) == 14);
    CHECK(equals(value_of("x @ v", tensors), {2}, {14, 32}));
    CHECK(equals(value_of("v @ x.T", tensors), {2}, {14, 32}));
    CHECK(equals(value_of("x @ x.T", tensors), {2, 2}, {14, 32, 32, 77}));
    CHECK(equals(value_of("c @ c", tensors), {2, 2, 2}, {7, 10, 15, 22, 67, 78, 91, 106}));
    CHECK(equals(value_of("c @ c[0]", tensors), {2, 2, 2}, {7, 10, 15, 22, 23, 34, 31, 46}));
    CHECK(equals(value_of("c @ x[0, 0:2]", tensors), {2, 2}, {5, 11, 17, 23}));
    CHECK_THROWS_AS(value_of("x @ x", tensors), FormulaError);
    CHECK_THROWS_AS(value_of("x @ 3", tensors), FormulaError);
}

TEST_CASE("shapes broadcast from the last axis", "[formula]")
{
    CHECK(equals(value_of("x + v", tensors), {2, 3}, {2, 4, 6, 5, 7, 9}));
    CHECK(equals(value_of("x * 2", tensors), {2, 3}, {2, 4, 6, 8, 10, 12}));
    CHECK(value_of("x[:, None, :] + x", tensors).shape == Shape{2, 2, 3});
    CHECK_THROWS_AS(value_of("x + x.T", tensors), FormulaError);
}

TEST_CASE("subscripts are NumPy's", "[formula]")
{
    CHECK(number("v[-1]", tensors) == 3);
    CHECK(equals(value_of("x[1]", tensors), {3}, {4, 5, 6}));
    CHECK(equals(value_of("x[:, 1]", tensors), {2}, {2, 5}));
    CHECK(equals(value_of("x[:, 1:]", tensors), {2, 2}, {2, 3, 5, 6}));
    CHECK(equals(value_of("x[:, 0:99]", tensors), {2, 3}, matrix.values));
    CHECK(equals(value_of("x[:, -2:-1]", tensors), {2, 1}, {2, 5}));
    CHECK(equals(value_of("v[::2]", tensors), {2}, {1, 3}));
    CHECK(equals(value_of("v[::-1]", tensors), {3}, {3, 2, 1}));
    CHECK(equals(value_of("v[2:0:-1]", tensors), {2}, {3, 2}));
    CHECK(equals(value_of("v[2:1]", tensors), {0}, {}));
    CHECK(equals(value_of("v[None, :]", tensors), {1, 3}, vector.values));
    CHECK(equals(value_of("c[1, :, 0]", tensors), {2}, {5, 7}));
    CHECK_THROWS_AS(value_of("v[3]", tensors), FormulaError);
    CHECK_THROWS_AS(value_of("v[0, 0]", tensors), FormulaError);
    CHECK_THROWS_AS(value_of("v[0.5]", tensors), FormulaError);
    CHECK_THROWS_AS(value_of("v[::0]", tensors), FormulaError);
}

TEST_CASE("integers between brackets gather rows", "[formula]")
{
    const Values table{{"table", matrix}, {"ids", {{2, 2}, {1, 0, 0, 1}, ElementType::integer}}, {"bad", {{1}, {2}}}};
    CHECK(equals(value_of("table[ids]", table), {2, 2, 3}, {4, 5, 6, 1, 2, 3, 1, 2, 3, 4, 5, 6}));
    CHECK_THROWS_AS(value_of("table[bad]", table), FormulaError);
}

TEST_CASE("transposition and sizes", "[formula]")
{
    CHECK(equals(value_of("x.T", tensors), {3, 2}, {1, 4, 2, 5, 3, 6}));
    CHECK(equals(value_of("c.T", tensors), {2, 2, 2}, {1, 3, 2, 4, 5, 7, 6, 8}));
    CHECK(equals(value_of("v.T", tensors), {3}, vector.values));
    CHECK(number("x.shape[0] * 10 + x.shape[-1]", tensors) == 23);
    CHECK_THROWS_AS(value_of("x.shape[2]", tensors), FormulaError);
    CHECK(equals(value_of("permute(c, 2, 0, 1)", tensors), {2, 2, 2}, {1, 3, 5, 7, 2, 4, 6, 8}));
    CHECK(equals(value_of("reshape(x, 3, 2)", tensors), {3, 2}, matrix.values));
    CHECK_THROWS_AS(value_of("reshape(x, 4)", tensors), FormulaError);
    CHECK_THROWS_AS(value_of("permute(x, 0, 0)", tensors), FormulaError);
    for (const char* without_axes : {"permute(x)", "permute(2)", "permute(c)"})
        CHECK_THROWS_WITH(value_of(without_axes, tensors), ContainsSubstring("wants the order of the axes"));
}

TEST_CASE("functions of one number give what the C library gives", "[formula]")
{
    CHECK(number("exp(1)") == std::exp(1.0));
    CHECK(number("log(2)") == std::log(2.0));
    CHECK(number("sqrt(2)") == std::sqrt(2.0));
    CHECK(number("tanh(0.5)") == std::tanh(0.5));
    CHECK(number("erf(0.5)") == std::erf(0.5));
    CHECK(number("sin(1) ** 2 + cos(1) ** 2") == Approx(1));
    CHECK(number("sigmoid(0)") == 0.5);
    CHECK(number("sigmoid(-1000)") == 0);
    CHECK(number("sigmoid(1000)") == 1);
    CHECK(number("relu(-1) + relu(2)") == 2);
    CHECK(std::isnan(number("relu(inf - inf)")));
    CHECK(number("abs(-3)") == 3);
    CHECK(number("floor(-0.5)") == -1);
    CHECK(number("cos(pi)") == -1);
    CHECK(number("round(2.5) + round(-3.5) + round(0.6)") == -1);
    CHECK(number("float16(2049)") == 2048);
    CHECK(number("bfloat16(257)") == 256);
    CHECK(number("float32(16777217)") == 16777216);
    CHECK(number("float8_e4m3(17)") == 16);
    CHECK(number("float8_e5m2(11)") == 12);
    CHECK(std::isnan(number("float8_e4m3(480)")));
    CHECK(std::isinf(number("float8_e5m2(1e6)")));
}

TEST_CASE("a rounding of rounded numbers can jump, one of exact numbers can't", "[formula]")
{
    CHECK(evaluate_with("round(2.5)", {}).error[0] == 0);
    CHECK(evaluate_with("round(2 + 1 / 2)", {}).error[0] == 1); // which is 2.5 or beside it
    CHECK(evaluate_with("round(7 / 3)", {}).error[0] == 0);
    CHECK(evaluate_with("float8_e4m3(17)", {}).error[0] == 0);
    CHECK(evaluate_with("float8_e4m3(16 + 3 / 3)", {}).error[0] == 2);             // halfway from 16 to 18
    CHECK(std::isinf(evaluate_with("float8_e5m2(61440 * (3 / 3))", {}).error[0])); // halfway to infinity
}

TEST_CASE("reducers take an axis, or everything", "[formula]")
{
    CHECK(number("sum(x)", tensors) == 21);
    CHECK(equals(value_of("sum(x, axis=0)", tensors), {3}, {5, 7, 9}));
    CHECK(equals(value_of("mean(x, axis=-1)", tensors), {2}, {2, 5}));
    CHECK(equals(value_of("max(x, axis=1, keepdims=True)", tensors), {2, 1}, {3, 6}));
    CHECK(number("min(x)", tensors) == 1);
    CHECK(equals(value_of("sum(c, axis=1)", tensors), {2, 2}, {4, 6, 12, 14}));
    CHECK(std::isnan(number("max(v)", {{"v", {{2}, {1, NAN}}}})));
    CHECK(number("sum(v)", {{"v", {{0}, {}}}}) == 0);
    CHECK_THROWS_AS(value_of("sum(x, axis=2)", tensors), FormulaError);
    CHECK_THROWS_AS(value_of("sum(x, axes=0)", tensors), FormulaError);
}

TEST_CASE("softmax runs along its axis and gives zeros where every number is minus infinity", "[formula]")
{
    const Array rows = value_of("softmax(x)", tensors);
    CHECK(rows.values[0] + rows.values[1] + rows.values[2] == Approx(1));
    const Array columns = value_of("softmax(x, axis=0)", tensors);
    CHECK(columns.values[0] + columns.values[3] == Approx(1));
    CHECK(equals(value_of("softmax(v)", {{"v", {{2}, {-infinity, -infinity}}}}), {2}, {0, 0}));
    CHECK(equals(value_of("softmax(v)", {{"v", {{2}, {1000, -infinity}}}}), {2}, {1, 0}));
    CHECK(number("softmax(v)[0]", {{"v", {{2}, {1000, 1000}}}}) == 0.5);
}

TEST_CASE("where, concat, repeat, interleave, diag, outer and the like give what NumPy gives", "[formula]")
{
    CHECK(equals(value_of("where(v >= 2, v, -inf)", tensors), {3}, {-infinity, 2, 3}));
    CHECK(equals(value_of("concat(v, v * 10, axis=0)", tensors), {6}, {1, 2, 3, 10, 20, 30}));
    CHECK(equals(value_of("concat(x, x[:, 0:1], axis=1)", tensors), {2, 4}, {1, 2, 3, 1, 4, 5, 6, 4}));
    CHECK(equals(value_of("repeat(v[None, :], 2, axis=0)", tensors), {2, 3}, {1, 2, 3, 1, 2, 3}));
    CHECK(equals(value_of("repeat(v, 2, axis=0)", tensors), {6}, {1, 1, 2, 2, 3, 3}));
    CHECK(equals(value_of("interleave(v, -v)", tensors), {6}, {1, -1, 2, -2, 3, -3}));
    CHECK(equals(value_of("diag(v[0:2])", tensors), {2, 2}, {1, 0, 0, 2}));
    CHECK(equals(value_of("outer(v, v[0:2])", tensors), {3, 2}, {1, 2, 2, 4, 3, 6}));
    CHECK(equals(value_of("arange(3)"), {3}, {0, 1, 2}));
    CHECK_THROWS_AS(value_of("concat(v, v)", tensors), FormulaError);
    CHECK_THROWS_AS(value_of("concat(x, v, axis=0)", tensors), FormulaError);
    CHECK_THROWS_AS(value_of("interleave(x, v)", tensors), FormulaError);
}

TEST_CASE("maximum and minimum take the larger or smaller of each two numbers, as NumPy's", "[formula]")
{
    CHECK(equals(value_of("maximum(v, 2)", tensors), {3}, {2, 2, 3}));
    CHECK(equals(value_of("minimum(v, 2)", tensors), {3}, {1, 2, 2}));
    CHECK(equals(value_of("minimum(x, x[:, 1:2])", tensors), {2, 3}, {1, 2, 2, 4, 5, 5}));
    CHECK(number("maximum(-inf, minimum(inf, 3))") == 3);
    CHECK(std::isnan(number("maximum(inf - inf, 1)")));
    CHECK(std::isnan(number("minimum(1, inf - inf)")));
    CHECK_THROWS_AS(value_of("maximum(x)", tensors), FormulaError);
    CHECK_THROWS_AS(value_of("minimum(x, c[0])", tensors), FormulaError);
}

TEST_CASE("a dotted path is one name, and .T ends it", "[formula]")
{
    CHECK(equals(value_of("head.0.x", tensors), {1}, {42}));
    CHECK(equals(value_of("head.0.x.T * 1", tensors), {1}, {42}));
    CHECK(number("head.0.x.shape[0]", tensors) == 1);
}

TEST_CASE("the error for a malformed formula says where and why, in one line", "[formula]")
{
    const auto message = [](const std::string& formula) {
        return test::caught<FormulaError>([&] { value_of(formula, tensors); }, "accepted");
    };
    CHECK(message("v +") == "\"v +\", character 4: expected a number, a name or a parenthesis");
    CHECK(message("v @ w") == "\"v @ w\", character 5: no earlier step is called w");
    CHECK(message("sofmax(v)") == "\"sofmax(v)\", character 1: there is no function sofmax");
    CHECK(message("v v") == "\"v v\", character 3: expected an operator or the end");
    CHECK(message("(v") == "\"(v\", character 3: expected )");
    for (const char* formula : {"", " ", ")", "v[", "v[]", "v.", "v[0", "sum(v", "sum(v,)", "sum(axis=0)", "1..2",
                                "v.shape", "@v", "v ** ", "=", "v = 1", "\n", "\xff"})
        CHECK(message(formula) != "accepted");
    CHECK(message("v\n+ 1").find('\n') == std::string::npos);
}

TEST_CASE("what several processors compute has the bits of what one computes", "[formula][threads]")
{
    constexpr std::size_t n = 230; // a product of 12 million multiplications, which one row of it is too small to share
    Values squares{{"a", {{n, n}, {}}}, {"b", {{n, n}, {}}}};
    for (std::size_t i = 0; i < n * n; ++i) {
        squares["a"].values.push_back(std::sin(static_cast<double>(i)));
        squares["b"].values.push_back(std::cos(static_cast<double>(i * i)));
    }
    const auto row_of = [](const std::vector<double>& of, std::size_t row) {
        const auto begin = of.begin() + static_cast<std::ptrdiff_t>(row * n);
        return std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(n));
    };
    const auto expect_rows = [&](const std::string& formula, const std::string& of_row) {
        const Evaluated all = evaluate_with(formula, squares);
        for (std::size_t row = 0; row < all.value.shape[0]; row += 37) {
            const Values one_row{{"a", {{1, n}, row_of(squares["a"].values, row % n)}}, {"b", squares["b"]}};
            const Evaluated one = evaluate_with(of_row, one_row);
            CHECK(one.value.values == row_of(all.value.values, row));
            CHECK(one.error == row_of(all.error, row));
        }
    };
    expect_rows("a @ b", "a @ b");
    expect_rows("softmax(a @ b)", "softmax(a @ b)");
    expect_rows(
        "concat(" +
            [] {
                std::string text = "a";
                for (int i = 1; i < 90; ++i)
                    text += ", a";
                return text;
            }() +
            ", axis=0) * 0.1",
        "a * 0.1");
}

TEST_CASE("a hostile formula is refused before it takes memory or the stack", "[formula][hostile]")
{
    for (const char* formula :
         {"arange(1e15)", "arange(1e9)", "outer(arange(1e5), arange(1e5))", "repeat(arange(9), 1e15, axis=0)",
          "reshape(arange(1), 1e10, 1e10)", "arange(-1)", "arange(0.5)", "arange(inf)",
          "outer(arange(8000), arange(8000)) @ outer(arange(8000), arange(8000))"})
        CHECK_THROWS_AS(value_of(formula), Error);

    CHECK_THROWS_AS(value_of(std::string(1'000'000, '(')), FormulaError);
    CHECK_THROWS_AS(value_of(std::string(5'000, '(')), FormulaError);
    CHECK_THROWS_AS(value_of(std::string(5'000, '-') + "1"), FormulaError);

    std::string chain = "1";
    for (int i = 0; i < 3'000; ++i)
        chain += "+1";
    CHECK_THROWS_AS(value_of(chain), FormulaError);
    std::string indexed = "v";
    for (int i = 0; i < 3'000; ++i)
        indexed += ".T";
    CHECK_THROWS_AS(value_of(indexed, tensors), FormulaError);
}

TEST_CASE("the error bound of a recorded number is zero, and each operation adds to it", "[formula][error]")
{
    CHECK(evaluate_with("v", tensors).error == std::vector<double>{0, 0, 0});
    CHECK(evaluate_with("v[0] + v[1]", tensors).error[0] == 3 * double_roundoff);
    CHECK(evaluate_with("-v", tensors).error[2] <= 3 * double_roundoff);
    const Evaluated product = evaluate_with("x @ v", tensors);
    CHECK(product.error[0] >= 14 * double_roundoff);
    CHECK(product.error[0] <= 14 * 8 * double_roundoff);
}

TEST_CASE("where a sum cancels, its error is that of its terms", "[formula][error]")
{
    const Evaluated cancelled = evaluate_with("sum(v)", {{"v", {{3}, {1e16, 1, -1e16}}}});
    CHECK(cancelled.error[0] >= 1);
    CHECK(evaluate_with("v - v", {{"v", {{1}, {1e16}}}}).error[0] == 0);
}

TEST_CASE("an infinity or NaN has no error", "[formula][error]")
{
    CHECK(evaluate_with("exp(1000)", {}).error[0] == 0);
    CHECK(evaluate_with("inf - inf", {}).error[0] == 0);
}

TEST_CASE("... between brackets stands for all axes that are not written", "[formula]")
{
    CHECK(equals(value_of("v[...]", tensors), {3}, vector.values));
    CHECK(equals(value_of("v[..., 0:2]", tensors), {2}, {1, 2}));
    CHECK(equals(value_of("x[..., 0:2]", tensors), {2, 2}, {1, 2, 4, 5}));
    CHECK(equals(value_of("c[..., 1]", tensors), {2, 2}, {2, 4, 6, 8}));
    CHECK(equals(value_of("c[1, ...]", tensors), {2, 2}, {5, 6, 7, 8}));
    CHECK(equals(value_of("c[0, ..., 1]", tensors), {2}, {2, 4}));
    CHECK(equals(value_of("c[..., ::2]", tensors), {2, 2, 1}, {1, 3, 5, 7}));
    CHECK(equals(value_of("x[..., None]", tensors), {2, 3, 1}, matrix.values));
    CHECK(equals(value_of("x[None, ...]", tensors), {1, 2, 3}, matrix.values));
    CHECK(equals(value_of("(x - mean(x, axis=-1)[..., None])", tensors), {2, 3}, {-1, 0, 1, -1, 0, 1}));
}

TEST_CASE("... may stand for no axis at all", "[formula]")
{
    CHECK(equals(value_of("x[..., 0, 1]", tensors), {}, {2}));
    CHECK(equals(value_of("x[0, ..., 1]", tensors), {}, {2}));
    CHECK(equals(value_of("c[..., 1, 0, 1]", tensors), {}, {6}));
}

TEST_CASE("... can be used once in a subscript, and never with too many other subscripts", "[formula]")
{
    CHECK_THROWS_AS(value_of("x[..., ...]", tensors), FormulaError);
    CHECK_THROWS_WITH(value_of("x[..., 0, ...]", tensors), ContainsSubstring("only one ..."));
    CHECK_THROWS_WITH(value_of("v[..., 0, 0]", tensors), ContainsSubstring("more subscripts than the 1 axes of (3,)"));
    for (const std::string text : {"v[..]", "v[....]", "v[...0]", "...", "v + ...", "v[...:2]", "v[..., ]"}) {
        CAPTURE(text);
        CHECK_THROWS_AS(value_of(text, tensors), FormulaError);
    }
}

TEST_CASE("& is true where both sides are, | where one is", "[formula]")
{
    CHECK(equals(value_of("(v >= 2) & (v < 3)", tensors), {3}, {0, 1, 0}));
    CHECK(value_of("(v >= 2) & (v < 3)", tensors).type == ElementType::boolean);
    CHECK(equals(value_of("(v > 1) & (v > 2) & (v > 0)", tensors), {3}, {0, 0, 1}));
    CHECK(equals(value_of("(v > 1)[:, None] & (v > 2)[None, :]", tensors), {3, 3}, {0, 0, 0, 0, 0, 1, 0, 0, 1}));
    const Values masks{{"m", {{2}, {1, 0}, ElementType::boolean}}, {"k", {{2, 1}, {1, 0}, ElementType::boolean}}};
    CHECK(equals(value_of("m & k", masks), {2, 2}, {1, 0, 0, 0}));
    CHECK(equals(value_of("(v < 2) | (v > 2)", tensors), {3}, {1, 0, 1}));
    CHECK(equals(value_of("(v > 2) | (v < 2) & (v > 1)", tensors), {3}, {0, 0, 1})); // & is tighter
    CHECK(equals(value_of("where(m & (m == m), 5, 6)", masks), {2}, {5, 6}));
}

TEST_CASE("& binds tighter than a comparison, as in Python", "[formula]")
{
    // v >= (2 & v) < 3 is what Python reads: numbers beside &, and two comparisons in a row.
    CHECK_THROWS_AS(value_of("v >= 2 & v < 3", tensors), FormulaError);
    CHECK_THROWS_WITH(value_of("v >= 2 & v", tensors), ContainsSubstring("& and | need booleans on both sides"));
}

TEST_CASE("& of numbers, of shapes that do not fit, or of nothing is refused", "[formula]")
{
    CHECK_THROWS_WITH(value_of("v & v", tensors), ContainsSubstring("& and | need booleans on both sides"));
    CHECK_THROWS_AS(value_of("(v > 1) & v", tensors), FormulaError);
    CHECK_THROWS_AS(value_of("1 & 1"), FormulaError);
    CHECK_THROWS_AS(value_of("(v > 1) & (x.T > 1)", tensors), FormulaError);
    CHECK_THROWS_AS(value_of("(v > 1) &", tensors), FormulaError);
    CHECK_THROWS_AS(value_of("& (v > 1)", tensors), FormulaError);
    CHECK_THROWS_AS(value_of("(v > 1) && (v > 2)", tensors), FormulaError);
}

TEST_CASE("a chain of 100,000 & is refused", "[formula][hostile]")
{
    std::string text = "(1 > 0)";
    for (int i = 0; i < 100'000; ++i)
        text += " & (1 > 0)";
    CHECK_THROWS_AS(value_of(text), FormulaError);
}

TEST_CASE("a keyword that is given twice is refused", "[formula]")
{
    CHECK_THROWS_WITH(parse_formula("softmax(x, axis=1, axis=0)"), ContainsSubstring("axis already"));
}

TEST_CASE("a formula of integers gives integers, and a comparison gives booleans", "[formula][types]")
{
    const Values typed{
        {"x", matrix}, {"ids", {{2}, {1, 0}, ElementType::integer}}, {"mask", {{2}, {1, 0}, ElementType::boolean}}};
    for (const char* formula : {"ids",
                                "2",
                                "arange(3)",
                                "ids + 1",
                                "2 * ids - arange(2)",
                                "-ids",
                                "x.shape[0]",
                                "where(mask, ids, -1)",
                                "where(mask, 1, 0)",
                                "ids[::-1]",
                                "ids[ids]",
                                "concat(ids, mask, axis=0)",
                                "repeat(ids, 2, axis=0)",
                                "ids @ ids",
                                "reshape(ids, 2, 1).T",
                                "sum(mask)",
                                "max(ids)",
                                "1 - mask",
                                "mask * mask",
                                "outer(ids, mask)",
                                "abs(-ids)"}) {
        CAPTURE(formula);
        CHECK(value_of(formula, typed).type == ElementType::integer);
    }
    for (const char* formula : {"x", "0.5", "2.0", "1e3", "inf", "ids / 1", "ids ** 2", "x[0] + ids[0]", "mean(ids)",
                                "exp(ids)", "softmax(ids)", "where(mask, ids, -inf)", "x[ids]", "x[0] * 2",
                                "concat(ids, x[0], axis=0)", "9007199254740992 * 9007199254740992"}) {
        CAPTURE(formula);
        CHECK(value_of(formula, typed).type == ElementType::real);
    }
    for (const char* formula : {"mask", "ids > 0", "mask & (ids > 0)", "where(mask, mask, ids == 1)", "mask[ids]",
                                "concat(mask, mask, axis=0)", "True", "max(mask)"}) {
        CAPTURE(formula);
        CHECK(value_of(formula, typed).type == ElementType::boolean);
    }
}

TEST_CASE("an id that is no row is an error that names it", "[formula]")
{
    CHECK_THROWS_WITH(value_of("x[v / 2]", tensors), ContainsSubstring("there is no row 0.5 in a table (2, 3)"));
    CHECK_THROWS_WITH(value_of("x[v]", tensors), ContainsSubstring("there is no row 2 in a table (2, 3)"));
    CHECK_THROWS_WITH(value_of("x[-v]", tensors), ContainsSubstring("there is no row -1 in a table (2, 3)"));
}

TEST_CASE("the names in a formula are its steps, and of some only the size is used", "[formula][names]")
{
    const auto text = [](std::string_view formula) {
        std::string names;
        for (const UsedName& name : names_in(formula))
            names += (names.empty() ? "" : " ") + name.name + (name.is_size_alone ? ".shape" : "");
        return names;
    };
    CHECK(text("queries @ keys.T / sqrt(keys.shape[-1])") == "queries keys");
    CHECK(text("queries / sqrt(keys.shape[-1])") == "queries keys.shape");
    CHECK(text("keys.shape[0] + keys") == "keys");
    CHECK(text("x.shape[axis[0]] + (a + b).shape[0]") == "x.shape axis a.shape b.shape");
    CHECK(text("table[ids][i:j:k, None, ...]") == "table ids i j k");
    CHECK(text("sum(x, axis=n, keepdims=True) * pi + inf") == "x n");
    CHECK(text("softmax(head.0.scores)") == "head.0.scores");
    CHECK(text("1 + 2") == "");
}

TEST_CASE("pad puts zeros around, and scatter_add adds rows up by their numbers", "[formula]")
{
    CHECK(equals(value_of("pad(v, 1, 2, axis=0)", tensors), {6}, {0, 1, 2, 3, 0, 0}));
    CHECK(equals(value_of("pad(x, 0, 1, axis=-1)", tensors), {2, 4}, {1, 2, 3, 0, 4, 5, 6, 0}));
    CHECK(equals(value_of("pad(x, 1, 0, axis=0)", tensors), {3, 3}, {0, 0, 0, 1, 2, 3, 4, 5, 6}));
    const Values given{{"ids", {{3}, {2, 0, 2}}}, {"rows", {{3, 2}, {1, 2, 3, 4, 5, 6}}}, {"v", vector}, {"x", matrix}};
    CHECK(equals(value_of("scatter_add(rows, ids, 4)", given), {4, 2}, {3, 4, 0, 0, 6, 8, 0, 0}));
    CHECK(equals(value_of("scatter_add(v, ids, 3)", given), {3}, {2, 0, 4}));
    for (const char* wrong : {"pad(v, 1, axis=0)", "pad(v, -1, 0, axis=0)", "pad(v, 1, 1)", "scatter_add(x, ids, 4)",
                              "scatter_add(rows, ids, 2)", "scatter_add(rows, rows[:, 0] / 2, 9)"})
        CHECK_THROWS_AS(value_of(wrong, given), FormulaError);
}

TEST_CASE("top_k is true at the k largest of each row, the earlier of equals, and NaN is larger than all", "[formula]")
{
    const Values given{{"x", {{2, 4}, {1, 3, 2, 3, 0, 0, 0, 0}}},
                       {"odd", {{4}, {infinity, not_a_number, 1, not_a_number}}}};
    CHECK(equals(value_of("top_k(x, 1)", given), {2, 4}, {0, 1, 0, 0, 1, 0, 0, 0}));
    CHECK(equals(value_of("top_k(x, 3)", given), {2, 4}, {0, 1, 1, 1, 1, 1, 1, 0}));
    CHECK(equals(value_of("top_k(x, 1, axis=0)", given), {2, 4}, {1, 1, 1, 1, 0, 0, 0, 0}));
    CHECK(equals(value_of("top_k(odd, 2)", given), {4}, {0, 1, 0, 1}));
    CHECK(equals(value_of("top_k(-odd[::2], 1)", given), {2}, {0, 1}));
    CHECK(equals(value_of("top_k(x, x.shape[0])[0]", given), {4}, {0, 1, 0, 1}));
    CHECK(value_of("top_k(x, 2)", given).type == ElementType::boolean);
    for (const char* wrong : {"top_k(x, 0)", "top_k(x, 5)", "top_k(x, 3, axis=0)", "top_k(2, 1)", "top_k(x)",
                              "top_k(x, 1.5)", "top_k(x[:, 0:0], 1)"})
        CHECK_THROWS_AS(value_of(wrong, given), FormulaError);
    CHECK_THROWS_WITH(
        value_of("top_k(x, 5)", given),
        ContainsSubstring("top_k: found 5 of 4 numbers, expected at least one and no more than there are"));
}

TEST_CASE("which numbers are the largest is unknown where one of the row has overflowed", "[formula]")
{
    const Evaluated found = evaluate_with("top_k(x * 1e300, 1)", {{"x", {{2, 2}, {1, 2, 1e300, 1}}}});
    CHECK(found.error[0] == 0);
    CHECK(found.error[1] == 0);
    CHECK(std::isinf(found.error[2]));
    CHECK(std::isinf(found.error[3]));
}

TEST_CASE("the error of a softmax covers a computation through the logarithm of the sum", "[formula]")
{
    // That subtracts log(1000) from each score, which rounds more than subtracting the largest one, 0.
    const Evaluated weights = evaluate_with("softmax(0 * arange(1000))", {});
    CHECK(weights.error[0] >= std::log(1000) * double_roundoff * weights.value.values[0]);

    // The difference is stored, which can be in a type of fewer digits than those of the sum.
    const Evaluated stored = evaluate_with("softmax(0 * arange(1000))", {}, {.stored_roundoff = 0x1p-9});
    CHECK(stored.error[0] >= std::log(1000) * 0x1p-9 * stored.value.values[0]);
}

TEST_CASE("where each result is stored, sums are stored once and keep the digits that they add up", "[formula]")
{
    const Values given{{"x", {{3}, {1, 2, -3}}}, {"half", {{}, {-0.5}}}};
    const ErrorModel in_float{.roundoff = 0x1p-24, .stored_roundoff = 0x1p-9, .sums = SumErrors::typical};
    ErrorModel each = in_float;
    each.stores_each = true;
    const auto error = [&](const char* formula, const ErrorModel& model) {
        return evaluate_with(formula, given, model).error[0];
    };
    CHECK(error("1 + tanh(half)", in_float) < 0x1p-20);
    CHECK(error("1 + tanh(half)", each) == Approx(0x1p-9 * (std::tanh(0.5) + 1 - std::tanh(0.5))));
    for (const char* sum : {"x @ x", "sum(x * 1)"}) {
        CAPTURE(sum);
        CHECK(error(sum, in_float) < 0x1p-18);
    }
    CHECK(error("x @ x", each) == Approx(0x1p-9 * 14).epsilon(1e-3));
    CHECK(error("x @ arange(3)", each) == Approx(0x1p-9 * 4).epsilon(1e-3)); // of 2 - 6, no product is stored
    CHECK(error("sum(x)", each) < 0x1p-20);
}

TEST_CASE(
    "what a formula computes on the way to its value comes inner ones first, without names, numbers and the value",
    "[formula]")
{
    const Array x{{2}, {1, 3}, ElementType::real};
    const Lookup lookup = [&](std::string_view name) { return name == "x" ? &x : nullptr; };
    const std::vector<Array> inner = inner_values("sqrt((x - mean(x)) ** 2)", lookup);
    std::vector<std::vector<double>> values;
    for (const Array& one : inner)
        values.push_back(one.values);
    CHECK(values == std::vector<std::vector<double>>{{2}, {-1, 1}, {1, 1}});
}

TEST_CASE("a function passes on the error of its argument by its slope", "[formula]")
{
    const Values given{{"x", {{}, {0.7}}}};
    const double of_argument = evaluate_with("1e6 * x - 1e6 * x + x", given).error[0];
    REQUIRE(of_argument > 1e-11);
    const auto slope = [&](const std::string& function) {
        return evaluate_with(function + "(1e6 * x - 1e6 * x + x)", given).error[0] / of_argument;
    };
    for (const char* largest_is_one : {"sin", "cos", "erf", "abs"}) { // a bound: up to the largest slope
        CAPTURE(largest_is_one);
        CHECK(slope(largest_is_one) >= 0.6);
        CHECK(slope(largest_is_one) <= 1.2);
    }
    CHECK(slope("exp") == Approx(std::exp(0.7)).epsilon(1e-4));
    CHECK(slope("sqrt") == Approx(0.5 / std::sqrt(0.7)).epsilon(1e-4));
    CHECK(slope("tanh") == Approx(1 - std::pow(std::tanh(0.7), 2)).epsilon(1e-4));
    const double sigmoid = 1 / (1 + std::exp(-0.7));
    CHECK(slope("sigmoid") == Approx(sigmoid * (1 - sigmoid)).epsilon(1e-4));
}
