// Lesson 22: low rank, and talking heads.
//
// A head scores two tokens by a bilinear form, x_i M x_j with M = W_q W_k^T. M is
// (d_model, d_model), but it is a product of two narrow matrices, so its rank is at most
// d_k. Several heads are several such forms, each with a softmax of its own. Talking
// heads mix the scores of all heads before softmax, and the weights after it.

#include "../lesson.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/layers/talking_heads.hpp"
#include "attn/reference/ops/concat.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <algorithm>
#include <cmath>

using namespace attn;

namespace {

constexpr std::size_t heads = 2;

// The helpers of teach(), which stand below it in this order.
TalkingHeadsWeights given_weights(Lesson& lesson);
Matrix columns_of_head(const Trace& trace, std::string_view step, std::string_view packed,
                       const Matrix& of, std::size_t head);
std::int64_t rank_of(const Trace& trace, const Matrix& form);
void compare_two_softmaxes(Lesson& lesson);
void join_value_maps(Lesson& lesson, const Matrix& inputs,
                     const MultiHeadWeights& learned, const std::vector<Matrix>& scores);
void count(Lesson& lesson);
void talk(Lesson& lesson, const Matrix& inputs, const TalkingHeadsWeights& learned,
          const std::vector<Matrix>& forms);

void teach(Lesson& lesson)
{
    lesson.heading(
        "1. Given: three tokens, the weights of two heads, and two mixing matrices");
    const Matrix inputs = lesson.input("inputs[n, d_model]",
                                       Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}});
    const TalkingHeadsWeights weights = given_weights(lesson);

    lesson.heading("2. One matrix per head, with a rank of at most d_k");
    std::vector<Matrix> forms, scores;
    for (std::size_t head = 0; head < heads; ++head) {
        const Trace trace = lesson.trace().scope("head", head);
        const Matrix query_weights =
            columns_of_head(trace, "query_weights[d_model, d_k]", "query_weights",
                            weights.maps.query.weight, head);
        const Matrix key_weights =
            columns_of_head(trace, "key_weights[d_model, d_k]", "key_weights",
                            weights.maps.key.weight, head);
        //! [form]
        const Matrix form =
            trace("form[d_model, d_model]", "query_weights @ key_weights.T",
                  matmul(query_weights, transpose(key_weights)));
        const Matrix by_form = trace("scores[n, m]", "inputs @ form @ inputs.T",
                                     matmul(matmul(inputs, form), transpose(inputs)));
        //! [form]
        forms.push_back(form);
        scores.push_back(by_form);
        lesson.expect_equal("the form gives the scores of queries and keys", by_form,
                            matmul(matmul(inputs, query_weights),
                                   transpose(matmul(inputs, key_weights))));
        lesson.expect("its rank is at most d_k",
                      std::cmp_less_equal(rank_of(trace, form), query_weights.shape(1)));
    }

    lesson.heading("3. The sum of both forms has a higher rank than each of them");
    const Trace sum = lesson.trace().scope("sum");
    const Matrix form = sum("form[d_model, d_model]", "head.0.form + head.1.form",
                            Matrix(forms[0] + forms[1]));
    lesson.expect_equal(
        "it is the form of one head with all columns", form,
        matmul(weights.maps.query.weight, transpose(weights.maps.key.weight)));
    rank_of(sum, form);

    lesson.heading("4. Two softmaxes can do what one cannot");
    compare_two_softmaxes(lesson);

    lesson.heading("5. Each head also maps values by a matrix of low rank");
    join_value_maps(lesson, inputs, weights.maps, scores);

    lesson.heading("6. Parameters that low rank saves, at the size of the 2017 paper");
    count(lesson);

    lesson.heading("7. Talking heads: scores are mixed before softmax, weights after it");
    talk(lesson, inputs, weights, forms);
}

// ---------------------------------------------------------------------- 1. given weights

TalkingHeadsWeights given_weights(Lesson& lesson)
{
    const Matrix query =
        lesson.input("query_weights[d_model, h_d_k]",
                     Matrix{{1, 0, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}, {0, 2, 1, 2}});
    const Matrix key =
        lesson.input("key_weights[d_model, h_d_k]",
                     Matrix{{0, 1, 1, 0}, {1, 0, -1, 1}, {0, 1, 2, 0}, {1, 1, 0, -1}});
    const Matrix value =
        lesson.input("value_weights[d_model, h_d_v]",
                     Matrix{{0, 2, 1, 0}, {0, 3, 0, 1}, {1, 0, 3, 0}, {1, 1, 0, 2}});
    const Matrix output = lesson.input(
        "output_weights[h_d_v, d_out]",
        Matrix{{1, 0, 0.5, 0}, {0, 1, 0, -0.5}, {0.5, 0, 1, 0}, {0, -0.5, 0, 1}});
    const Matrix scores =
        lesson.input("talking_scores[h_k, h]", Matrix{{0.75, 0.5}, {0.25, -0.5}});
    const Matrix weights =
        lesson.input("talking_weights[h, h_v]", Matrix{{1, 0.25}, {-0.5, 0.75}});
    if (query.shape(1) % heads != 0 || value.shape(1) % heads != 0 ||
        scores.shape(0) != heads || scores.shape(1) != heads || weights.shape(1) != heads)
        throw ShapeError("this lesson has 2 heads: the columns of query_weights and "
                         "value_weights have to be even, "
                         "talking_scores and talking_weights (2, 2)");
    return {{{query}, {key}, {value}, LinearWeights{output}}, scores, weights};
}

// --------------------------------------------------------------------------- 2. low rank

/// A head's columns of a packed map.
Matrix columns_of_head(const Trace& trace, std::string_view step, std::string_view packed,
                       const Matrix& of, std::size_t head)
{
    const std::size_t width = of.shape(1) / heads, begin = head * width;
    return trace(step,
                 std::string(packed) + "[:, " + std::to_string(begin) + ":" +
                     std::to_string(begin + width) + "]",
                 columns(of, begin, begin + width));
}

/// The first number that is about as large as the largest.
std::pair<std::size_t, std::size_t> pivot_of(const Matrix& matrix)
{
    const double largest = max_all(Matrix(xt::abs(matrix)));
    for (std::size_t i = 0; i < matrix.shape(0); ++i)
        for (std::size_t j = 0; j < matrix.shape(1); ++j)
            if (std::abs(matrix(i, j)) >= 0.99 * largest)
                return {i, j};
    return {0, 0};
}

/// The rank of a form: how many outer products have to be subtracted until every number
/// is zero.
std::int64_t rank_of(const Trace& trace, const Matrix& form)
{
    Matrix rest = form;
    std::string name = "form", sizes;
    std::vector<double> found;
    for (std::size_t step = 1; step <= form.shape(0) + 1; ++step) {
        const auto [row, column] = pivot_of(rest);
        const double pivot = rest(row, column);
        found.push_back(std::abs(pivot));
        sizes += "reshape(max(abs(" + name + ")), 1), ";
        if (found.back() <= 1e-9 * found.front())
            break;
        const std::string i = std::to_string(row), j = std::to_string(column);
        const std::string formula = name + " - outer(" + name + "[:, " + j + "], " +
                                    name + "[" + i + ", :]) / " + name + "[" + i + ", " +
                                    j + "]";
        const Trace trace_of_step = trace.scope("step", step);
        //! [rank]
        const Vector in_column = xt::col(rest, column), in_row = xt::row(rest, row);
        rest = trace_of_step("rest[d_model, d_model]", formula,
                             Matrix(rest - outer(in_column, in_row) / pivot));
        //! [rank]
        name = "step." + std::to_string(step) + ".rest";
    }
    Vector sizes_found(Vector::shape_type{found.size()});
    std::ranges::copy(found, sizes_found.begin());
    const Vector pivots =
        trace("pivots[steps]", "concat(" + sizes + "axis=0)", sizes_found);
    const double least = 1e-9 * pivots(0);
    return trace("rank", "sum(where(pivots > 1e-9 * pivots[0], 1, 0))",
                 std::int64_t{std::ranges::count_if(
                     pivots, [least](double pivot) { return pivot > least; })});
}

// ---------------------------------------------------------------------- 4. two softmaxes

/// Two heads that attend to one token each, and what one set of weights can do instead.
void compare_two_softmaxes(Lesson& lesson)
{
    const Trace two = lesson.trace().scope("two");
    const Matrix values = two("values[m, d_v]", "", Matrix{{0, 0}, {1, 0}, {0, 1}});
    const Matrix scores = two("scores[h, m]", "", Matrix{{0, 8, 0}, {0, 0, 8}});
    //! [two]
    const Matrix weights = two("weights[h, m]", "softmax(scores)", softmax(scores));
    const Matrix all = matmul(weights, values);
    const Vector apart =
        two("apart[d_v]",
            "concat(weights[0] @ values[:, 0:1], weights[1] @ values[:, 1:2], axis=0)",
            Vector{all(0, 0), all(1, 1)});
    //! [two]
    //! [one]
    const Vector sum = two("sum[m]", "sum(scores, axis=0)", sum_along(scores, 0));
    const Vector joint = two("joint[m]", "softmax(sum)", softmax(sum));
    const Vector together = two("together[d_v]", "joint @ values", matmul(joint, values));
    //! [one]
    lesson.expect("one softmax shares a total weight of 1 between both tokens",
                  sum_all(together) < 1);
    lesson.expect("two give each of them nearly 1", apart(0) > 0.99 && apart(1) > 0.99);
}

// ----------------------------------------------------------------------------- 5. values

/// A head multiplies its average by W_v and by its rows of W^O: together one matrix of
/// low rank.
void join_value_maps(Lesson& lesson, const Matrix& inputs,
                     const MultiHeadWeights& learned, const std::vector<Matrix>& scores)
{
    const double root =
        std::sqrt(static_cast<double>(learned.query.weight.shape(1) / heads));
    Matrix sum = xt::zeros<double>({inputs.shape(0), learned.output->weight.shape(1)});
    std::string formula;
    for (std::size_t head = 0; head < heads; ++head) {
        const Trace trace = lesson.trace().scope("head", head);
        const Matrix value_weights =
            columns_of_head(trace, "value_weights[d_model, d_v]", "value_weights",
                            learned.value.weight, head);
        const std::size_t begin = head * value_weights.shape(1),
                          end = begin + value_weights.shape(1);
        const Matrix rows =
            xt::view(learned.output->weight, xt::range(begin, end), xt::all());
        const std::string formula_of_map = "value_weights @ output_weights[" +
                                           std::to_string(begin) + ":" +
                                           std::to_string(end) + "]";
        //! [maps]
        const Matrix map =
            trace("map[d_model, d_out]", formula_of_map, matmul(value_weights, rows));
        const Matrix weights =
            trace("weights[n, m]", "softmax(scores / sqrt(query_weights.shape[1]))",
                  softmax(Matrix(scores[head] / root)));
        sum += trace("says[n, d_out]", "weights @ inputs @ map",
                     matmul(matmul(weights, inputs), map));
        //! [maps]
        formula += (head == 0 ? "head." : " + head.") + std::to_string(head) + ".says";
    }
    const Matrix output = lesson.trace()("output[n, d_out]", formula, sum);
    lesson.expect_equal("a form and a map per head give the output of multi-head "
                        "attention",
                        output, multi_head_attention(inputs, learned, {heads}).output);
}

// ----------------------------------------------------------------------------- 6. counts

/// Parameters at the paper's size: forms and maps in full, or each as a product of two
/// narrow matrices.
void count(Lesson& lesson)
{
    const Trace cost = lesson.trace().scope("cost");
    const std::int64_t d_model = cost("d_model", "", std::int64_t{512}),
                       h = cost("h", "", std::int64_t{8});
    const std::int64_t d_k = cost("d_k", "d_model / h", d_model / h);
    //! [count]
    const std::int64_t full =
        cost("full", "2 * h * d_model ** 2", 2 * h * d_model * d_model);
    const std::int64_t narrow =
        cost("narrow", "2 * h * 2 * d_model * d_k", 4 * h * d_model * d_k);
    const std::int64_t talking = cost("talking", "2 * h ** 2", 2 * h * h);
    //! [count]
    lesson.table({"parameters: in full", "as narrow products", "for mixing heads"},
                 {{static_cast<double>(full), static_cast<double>(narrow),
                   static_cast<double>(talking)}});
}

// ---------------------------------------------------------------------- 7. talking heads

/// Each softmax is applied to a mixture of all heads' scores. Its form is the same
/// mixture of the heads' forms.
void talk(Lesson& lesson, const Matrix& inputs, const TalkingHeadsWeights& learned,
          const std::vector<Matrix>& forms)
{
    const double root =
        std::sqrt(static_cast<double>(learned.maps.query.weight.shape(1) / heads));
    const Matrix& mixture = learned.scores;
    std::vector<Matrix> weights;
    for (std::size_t into = 0; into < heads; ++into) {
        const Trace trace = lesson.trace().scope("mixed", into);
        const std::string column = ", " + std::to_string(into) + "]";
        const std::string formula = "head.0.form * talking_scores[0" + column +
                                    " + head.1.form * talking_scores[1" + column;
        //! [mixed]
        const Matrix form =
            trace("form[d_model, d_model]", formula,
                  Matrix(forms[0] * mixture(0, into) + forms[1] * mixture(1, into)));
        //! [mixed]
        rank_of(trace, form);
        const Matrix scores = trace("scores[n, m]", "inputs @ form @ inputs.T",
                                    matmul(matmul(inputs, form), transpose(inputs)));
        weights.push_back(trace("weights[n, m]",
                                "softmax(scores / sqrt(head.0.query_weights.shape[1]))",
                                softmax(Matrix(scores / root))));
    }

    const Trace talking =
        lesson.trace().scope("talking", {{"x", "inputs"},
                                         {"query_weights", "query_weights"},
                                         {"key_weights", "key_weights"},
                                         {"value_weights", "value_weights"},
                                         {"output_weights", "output_weights"},
                                         {"talking_scores", "talking_scores"},
                                         {"talking_weights", "talking_weights"}});
    //! [talk]
    const MultiHead found = talking_heads_attention(inputs, learned, {}, talking);
    //! [talk]
    for (std::size_t into = 0; into < heads; ++into)
        lesson.expect_equal("talking head " + std::to_string(into) +
                                " has the scores of a mixture of forms",
                            Matrix(weights[0] * learned.weights(0, into) +
                                   weights[1] * learned.weights(1, into)),
                            found.weights[into]);

    const Matrix identity{{1, 0}, {0, 1}};
    lesson.expect_equal(
        "with identities as mixing matrices, the output is that of multi-head attention",
        talking_heads_attention(inputs, {learned.maps, identity, identity}).output,
        multi_head_attention(inputs, learned.maps, {heads}).output);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("22_low_rank_and_talking_heads", argc, argv, teach);
}
