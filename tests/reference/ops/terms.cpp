#include "attn/reference/ops/terms.hpp"
#include "attn/reference/ops/quantize.hpp"

#include "../../by_hand.hpp"
#include "../../sources.hpp"
#include "../../test.hpp"

#include "attn/core/error.hpp"
#include "attn/core/recorder.hpp"
#include "attn/core/shape.hpp"
#include "attn/core/trace.hpp"
#include "attn/formula/expression.hpp"
#include "attn/formula/verify.hpp"
#include "attn/reference/ops/remainder.hpp"

#include <map>
#include <set>
#include <sstream>
#include <string>

using namespace attn;
using namespace attn::test;

namespace {

const Matrix a_numbers{{1, 2, -3}, {4, -0.5, 6}}, b_numbers{{0.25, 3, 5}, {-7, 8, 9}};
const Vector v_numbers{2, 3, 5};

std::map<std::string, std::string> formulas_of(const Recording& recording)
{
    std::map<std::string, std::string> formulas;
    for (const Step& step : recording.steps)
        formulas[step.path] = step.formula;
    return formulas;
}

/// Every operation once, each a step.
Recording every_operation()
{
    Recorder recorder;
    const Trace trace(recorder);
    const Term a = trace.given("a[n, d]", a_numbers), b = trace.given("b[n, d]", b_numbers);
    const Term v = trace.given("v[d]", v_numbers), positive = trace.given("positive[d]", v_numbers);
    const Term ids = trace.given("ids[i]", Integers{1, 0, 1});
    const Term x = trace.given("x[b, n, d]", Tensor3{{{1, 2, 3}, {4, 5, 6}}, {{7, -8, 9}, {0, 1, 2}}});
    int count = 0;
    const auto step = [&](const auto& term) { return trace("step" + std::to_string(count++), term); };
    (void)step(a + b);
    (void)step(a - (b - a));
    (void)step(a * b / (a + b));
    (void)step(floor_divide(a, b) * (a % v));
    (void)step(a + v);
    (void)step(v * a);
    (void)step(x - a);
    (void)step(a + sum_all(b));
    (void)step(2.0 * a + 0.5);
    (void)step(1.0 - a / 3.0);
    (void)step(-1.5 + a);
    (void)step(-exp(a) * b);
    (void)step(power(abs(a) + 1.0, 0.5));
    (void)step(power(number(2, trace), -a));
    (void)step(sqrt(square(a)));
    (void)step(square(a - b));
    (void)step(log(positive) + erf(v) * floor(v / 2.0));
    (void)step(sin(a) * cos(a));
    (void)step(tanh(a));
    (void)step(sigmoid(a));
    (void)step(relu(a));
    (void)step(minimum(maximum(a, 0.0), b));
    const Term less = step(a < b);
    const Term more = step(a >= 0.0);
    (void)step(((a <= b) & more) | (0.0 > a));
    (void)step(a == 4.0);
    (void)step(a != 4.0);
    (void)step(rounded(a));
    for (const NumberType type : {NumberType::float32, NumberType::float16, NumberType::bfloat16,
                                  NumberType::float8_e4m3, NumberType::float8_e5m2})
        (void)step(rounded_to(type, a));
    (void)step(where(less, a, minus_infinity));
    (void)step(where(less, a, v));
    (void)step(top_k(a, 2));
    (void)step(matmul(a, transpose(b)));
    (void)step(matmul(a * b, transpose(a + b)));
    (void)step(matmul(matmul(a, transpose(b)), b));
    (void)step(softmax(a));
    (void)step(softmax(a, 0));
    (void)step(softmax(x, 1));
    const Term mean = step(mean_along(a, -1)), sum = step(sum_along(a, 1));
    (void)step(mean_all(a) * max_all(b) + min_all(v));
    (void)step(max_along(x, 1) - min_along(x, 1));
    (void)step(a - column(mean));
    (void)step(a / sqrt(sum_along(square(a), -1, keepdims) + 1e-6));
    (void)step(a / sqrt(size_along(a, -1)));
    (void)step(a * each_row(sum));
    (void)step(a * entry(b, 1, 2));
    (void)step(in_front(v) + in_front(row(x, 1)));
    (void)step(take_rows(a, ids));
    (void)step(slice(v, 1, 3));
    (void)step(columns(a, 1, 3));
    (void)step(matrix_columns(a, 1, 3));
    (void)step(matrix_column(a, 1));
    (void)step(every_second(x, 0, 3));
    (void)step(every_second(x, 1, 2));
    (void)step(rows(a, 1, 2));
    (void)step(part(a, 0, 1, 2));
    (void)step(concat<Matrix>({a, b, a}, -1));
    (void)step(concat<Vector>({v, v}, 0));
    (void)step(concat<Tensor3>({x, x}, 1));
    (void)step(concat_rows(a, b));
    (void)step(repeat(x, 2, 1));
    (void)step(interleave(a, b));
    (void)step(pad(x, 1, 2, 1));
    (void)step(scatter_add(take_rows(a, ids), ids, 3));
    (void)step(reshape<Matrix>(x, {6, 2}));
    (void)step(permute(x, {2, 0, 1}));
    (void)step(diag(v) - outer(v, v));
    (void)step(arange(size_along(a, 0)));
    return recorder.recording();
}

/// The functions and operators that a formula has.
void note_words(const formula::Expression& expression, std::set<std::string, std::less<>>& words)
{
    using Kind = formula::Expression::Kind;
    if (expression.kind == Kind::call || expression.kind == Kind::binary)
        words.insert(expression.text);
    for (const formula::Expression& operand : expression.operands)
        note_words(operand, words);
}

} // namespace

TEST_CASE("an operation on terms computes what it says", "[terms][reference]")
{
    const Recording recording = every_operation();
    const formula::Verification verification = formula::verify(recording);
    CHECK(verification.passed());
    CHECK(verification.inputs() == 6);
    CHECK(verification.recomputed() == recording.steps.size() - 6);
}

TEST_CASE("the formula language, terms and docs/formulas.md have the same functions", "[terms][formula][docs]")
{
    std::set<std::string, std::less<>> said, known;
    for (const Step& step : every_operation().steps)
        if (!step.formula.empty())
            note_words(formula::parse_formula(step.formula), said);
    for (const std::string_view word : formula::function_names())
        known.emplace(word);
    CHECK(said == known);

    const std::string page = source_file("docs/formulas.md").text;
    std::set<std::string, std::less<>> documented;
    for (const std::string_view section : {"{#formulas_operators}", "{#formulas_functions}"}) {
        const std::size_t begin = page.find(section), end = page.find("\n## ", begin);
        std::istringstream lines(page.substr(begin, end - begin));
        for (std::string line; std::getline(lines, line);)
            if (line.starts_with("| `"))
                for (std::size_t at = 2; line[at] == '`';
                     at = line.find_first_not_of(", ", line.find('`', at + 1) + 1)) {
                    std::string word = line.substr(at + 1, line.find_first_of("`(", at + 1) - at - 1);
                    std::erase(word, '\\');
                    if (!word.starts_with("x") && word != "-x")
                        documented.insert(word);
                }
    }
    CHECK(documented == known);
}

TEST_CASE("a term is written with the parentheses that it needs and no others", "[terms][reference]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const Term a = trace.input("a[n, d]", Term(a_numbers)), b = trace.input("b[n, d]", Term(b_numbers));
    const auto said = [&](const auto& term) { return trace.say(term.wording()); };
    CHECK(said(a + b + a) == "a + b + a");
    CHECK(said(a + (b + a)) == "a + (b + a)"); // which is rounded otherwise
    CHECK(said(a - (b - a)) == "a - (b - a)");
    CHECK(said(a * (b / a)) == "a * (b / a)");
    CHECK(said((a + b) * a) == "(a + b) * a");
    CHECK(said(-(a + b)) == "-(a + b)");
    CHECK(said(square(-a)) == "(-a) ** 2");
    CHECK(said(transpose(a + b)) == "(a + b).T");
    CHECK(said(matmul(a * b, transpose(a))) == "(a * b) @ a.T");
    CHECK(said(matmul(matmul(a, transpose(b)), b)) == "a @ b.T @ b");
    CHECK(said(exp(columns(a, 0, 2))) == "exp(a[..., 0:2])");
}

TEST_CASE("a scope says a step by the name that its formulas find", "[terms][reference]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const Term x = trace.input("x[n, d]", Term(a_numbers));
    const Trace first = trace.scope("head", 0), second = trace.scope("head", 1);
    const Term left = first("scores[n, d]", 2.0 * x), right = second("scores[n, d]", 3.0 * x);
    (void)second("sum[n, d]", left + right);
    const Term both = trace("both[n, d]", left + right);
    (void)second("more[n, d]", both + right);

    const auto formulas = formulas_of(recorder.recording());
    CHECK(formulas.at("head.0.scores") == "2 * x");
    CHECK(formulas.at("head.1.sum") == "head.0.scores + scores");
    CHECK(formulas.at("both") == "head.0.scores + head.1.scores");
    CHECK(formulas.at("head.1.more") == "both + scores");
}

TEST_CASE("a step that another one hides is refused, and not said by a name that means the other", "[terms][reference]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const Term outer = trace.input("scores[n, d]", Term(a_numbers));
    const Trace inside = trace.scope("head");
    (void)inside.input("scores[n, d]", Term(b_numbers));
    CHECK_THROWS_WITH(inside("sum[n, d]", outer + outer), ContainsSubstring("no formula in head. can name scores"));
}

TEST_CASE("an argument that is a step gets another name, one that was computed becomes a step", "[terms][reference]")
{
    Recorder recorder;
    const Trace trace(recorder);
    const Term x = trace.input("x[n, d]", Term(a_numbers));
    const Trace inside = trace.scope("norm");
    const Term same = inside.input("x[n, d]", x), computed = inside.input("y[n, d]", x + x);
    (void)inside("output[n, d]", same * computed);

    const Recording& recording = recorder.recording();
    REQUIRE(recording.aliases.size() == 1);
    CHECK(recording.aliases.front().path == "norm.x");
    CHECK(recording.aliases.front().target == "x");
    CHECK(recording.at("norm.y").formula == "x + x");
    CHECK(recording.at("norm.output").formula == "x * y");
}

TEST_CASE("a term without a step can't be recorded, and nothing is written where nobody listens", "[terms][reference]")
{
    Recorder recorder, other;
    const Trace trace(recorder), elsewhere(other);
    const Term x = trace.input("x[n, d]", Term(a_numbers));
    CHECK_THROWS_WITH(trace("y[n, d]", x + Term(b_numbers)), ContainsSubstring("no step of this trace"));
    CHECK_THROWS_WITH(elsewhere("y[n, d]", x + x), ContainsSubstring("no step of this trace"));
    const Term theirs = elsewhere.input("x[n, d]", Term(a_numbers));
    CHECK_THROWS_WITH(trace("y[n, d]", x + theirs), ContainsSubstring("no step of this trace"));
    CHECK_THROWS_WITH(trace("y[n, d]", concat_rows(x, theirs)), ContainsSubstring("no step of this trace"));
    CHECK((x + Term(b_numbers)).wording().text.empty());
    CHECK(Trace().say((x + x).wording()).empty()); // somebody listens to the term, and nobody to this trace
    const Term quiet = Trace()("y[n, d]", Term(a_numbers) + Term(b_numbers));
    CHECK(quiet.wording().text.empty());
    CHECK(same_bits(*quiet, *(x + Term(b_numbers))));
}

TEST_CASE("terms whose shapes don't fit together are refused", "[terms][reference]")
{
    const Term a(a_numbers), b(Matrix{{1, 2}, {3, 4}});
    CHECK_THROWS_WITH(a + b, ContainsSubstring("(2, 3) and (2, 2) can't be taken number by number"));
    CHECK_THROWS_AS(a * b, ShapeError);
    CHECK_THROWS_AS(interleave(a, b), ShapeError);
    CHECK_THROWS_AS(concat(std::vector{a, b}, 0), ShapeError);
    CHECK_THROWS_AS(concat(std::vector<Term<Matrix>>{}, 0), std::logic_error);
    CHECK_THROWS_AS(reshape<Matrix>(a, {4, 2}), ShapeError);
    CHECK_THROWS_AS(sum_along(a, 2), ShapeError);
}

TEST_CASE("entries that a term does not have are refused", "[terms][reference]")
{
    const Term a(a_numbers);
    CHECK_THROWS_WITH(row(a, 2), ContainsSubstring("no entries 2:3 along axis 0 of (2, 3)"));
    CHECK_THROWS_AS(slice(a, 1, 3), ShapeError);
    CHECK_THROWS_AS(rows(a, 1, 3), ShapeError);
    CHECK_THROWS_AS(columns(a, 2, 4), ShapeError);
    CHECK_THROWS_AS(matrix_column(a, 3), ShapeError);
    CHECK_THROWS_AS(every_second(a, 0, 4), ShapeError);
    CHECK_THROWS_AS(entry(a, 0, 3), ShapeError);
}

TEST_CASE("a term takes its storage back where it alone has it", "[terms][reference]")
{
    Term alone(Matrix{{1, 2}});
    const double* const storage = alone->data();
    const Matrix taken = std::move(alone).take();
    CHECK(taken.data() == storage);

    Term first(Matrix{{1, 2}});
    const Term second = first;
    const Matrix copy = std::move(first).take();
    CHECK(copy.data() != second->data());
    CHECK(same_bits(*second, Matrix{{1, 2}}));

    const Term borrowed(a_numbers); // a copy, since the numbers are somebody else's
    CHECK(Matrix(borrowed).data() != a_numbers.data());
}
