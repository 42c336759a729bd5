// Lesson 22: low rank, and talking heads.
//
// A head scores two tokens by a bilinear form, x_i M x_j with M = W_q W_k^T. M is
// (d_model, d_model), but it is a product of two narrow matrices, so its rank is at most
// d_k. Several heads are several such forms, each with a softmax of its own. Talking
// heads mix the scores of all heads before softmax, and the weights after it.

#include "../lesson.hpp"
#include "../numbers.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/layers/talking_heads.hpp"

#include <cmath>

using namespace attn;

namespace {

constexpr std::size_t heads = 2;

/// The weights of all heads, packed, and two matrices that mix heads.
struct Given {
    Term<Matrix> query, key, value, output, talking_scores, talking_weights;

    /// As the library takes them.
    MultiHeadWeights maps() const
    {
        return {{*query}, {*key}, {*value}, LinearWeights{*output}};
    }
};

/// How one head compares tokens.
struct Head {
    Term<Matrix> query_weights, form, scores;
};

// The helpers of teach(), which stand below it in this order.
Given given_weights(Lesson& lesson);
Term<Matrix> of_head(const Term<Matrix>& packed, std::size_t head);
double rank_of_form(const Trace& trace, const Term<Matrix>& form);
void compare_two_softmaxes(Lesson& lesson);
void join_value_maps(Lesson& lesson, const Term<Matrix>& inputs, const Given& given,
                     const std::vector<Head>& each);
void count(Lesson& lesson);
void talk(Lesson& lesson, const Term<Matrix>& inputs, const Given& given,
          const std::vector<Head>& each);

void teach(Lesson& lesson)
{
    lesson.heading(
        "1. Given: three tokens, the weights of two heads, and two mixing matrices");
    const Term inputs = lesson.input("inputs[n, d_model]",
                                     Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}});
    const Given given = given_weights(lesson);

    lesson.heading("2. One matrix per head, with a rank of at most d_k");
    std::vector<Head> each;
    for (std::size_t head = 0; head < heads; ++head) {
        const Trace trace = lesson.trace().scope("head", head);
        //! [form]
        const Term query_weights =
            trace("query_weights[d_model, d_k]", of_head(given.query, head));
        const Term key_weights =
            trace("key_weights[d_model, d_k]", of_head(given.key, head));
        const Term form = trace("form[d_model, d_model]",
                                matmul(query_weights, transpose(key_weights)));
        const Term scores =
            trace("scores[n, m]", matmul(matmul(inputs, form), transpose(inputs)));
        //! [form]
        each.push_back({query_weights, form, scores});
        lesson.expect_equal("the form gives the scores of queries and keys", scores,
                            matmul(matmul(inputs, query_weights),
                                   transpose(matmul(inputs, key_weights))));
        lesson.expect("its rank is at most d_k",
                      rank_of_form(trace, form) <= *size_along(query_weights, 1));
    }

    lesson.heading("3. The sum of both forms has a higher rank than each of them");
    const Trace sum = lesson.trace().scope("sum");
    const Term form = sum("form[d_model, d_model]", each[0].form + each[1].form);
    lesson.expect_equal("it is the form of one head with all columns", form,
                        matmul(given.query, transpose(given.key)));
    rank_of_form(sum, form);

    lesson.heading("4. Two softmaxes can do what one cannot");
    compare_two_softmaxes(lesson);

    lesson.heading("5. Each head also maps values by a matrix of low rank");
    join_value_maps(lesson, inputs, given, each);

    lesson.heading("6. Parameters that low rank saves, at the size of the 2017 paper");
    count(lesson);

    lesson.heading("7. Talking heads: scores are mixed before softmax, weights after it");
    talk(lesson, inputs, given, each);
}

// ---------------------------------------------------------------------- 1. given weights

Given given_weights(Lesson& lesson)
{
    Given given;
    given.query =
        lesson.input("query_weights[d_model, h_d_k]",
                     Matrix{{1, 0, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}, {0, 2, 1, 2}});
    given.key =
        lesson.input("key_weights[d_model, h_d_k]",
                     Matrix{{0, 1, 1, 0}, {1, 0, -1, 1}, {0, 1, 2, 0}, {1, 1, 0, -1}});
    given.value =
        lesson.input("value_weights[d_model, h_d_v]",
                     Matrix{{0, 2, 1, 0}, {0, 3, 0, 1}, {1, 0, 3, 0}, {1, 1, 0, 2}});
    given.output = lesson.input(
        "output_weights[h_d_v, d_out]",
        Matrix{{1, 0, 0.5, 0}, {0, 1, 0, -0.5}, {0.5, 0, 1, 0}, {0, -0.5, 0, 1}});
    given.talking_scores =
        lesson.input("talking_scores[h_k, h]", Matrix{{0.75, 0.5}, {0.25, -0.5}});
    given.talking_weights =
        lesson.input("talking_weights[h, h_v]", Matrix{{1, 0.25}, {-0.5, 0.75}});
    if (given.query.shape(1) % heads != 0 || given.value.shape(1) % heads != 0 ||
        given.talking_scores.shape(0) != heads ||
        given.talking_scores.shape(1) != heads || given.talking_weights.shape(1) != heads)
        throw ShapeError("this lesson has 2 heads: the columns of query_weights and "
                         "value_weights have to be even, "
                         "talking_scores and talking_weights (2, 2)");
    return given;
}

// --------------------------------------------------------------------------- 2. low rank

/// A head's columns of a packed map.
Term<Matrix> of_head(const Term<Matrix>& packed, std::size_t head)
{
    const std::size_t width = packed.shape(1) / heads;
    return matrix_columns(packed, head * width, (head + 1) * width);
}

/// The first number that is about as large as the largest.
std::pair<std::size_t, std::size_t> pivot_of(const Term<Matrix>& x)
{
    const double largest = *max_all(abs(x));
    for (std::size_t i = 0; i < x.shape(0); ++i)
        for (std::size_t j = 0; j < x.shape(1); ++j)
            if (std::abs((*x)(i, j)) >= 0.99 * largest)
                return {i, j};
    return {0, 0};
}
/// A number as a vector of one.
Term<Vector> of_one(const Term<double>& x)
{
    return {Vector{*x}, call_of("reshape", {x.wording()}, "1")};
}

/// The rank of a form: how many outer products have to be subtracted until every number
/// is zero.
double rank_of_form(const Trace& trace, const Term<Matrix>& form)
{
    Term rest = form;
    std::vector<Term<Vector>> largest;
    for (std::size_t step = 1; step <= form.shape(0) + 1; ++step) {
        largest.push_back(of_one(max_all(abs(rest))));
        if ((*largest.back())(0) <= 1e-9 * (*largest.front())(0))
            break;
        const Trace trace_of_step = trace.scope("step", step);
        //! [rank]
        const auto [i, j] = pivot_of(rest);
        const Term products = outer(matrix_column(rest, j), row(rest, i));
        rest =
            trace_of_step("rest[d_model, d_model]", rest - products / entry(rest, i, j));
        //! [rank]
    }
    const Term pivots = trace("pivots[steps]", concat(largest, 0));
    const Term least = 1e-9 * slice(pivots, 0, 1);
    return *WholeNumbers(trace)("rank", sum_all(ones(in_front(pivots) > least)));
}

// ---------------------------------------------------------------------- 4. two softmaxes

/// Two heads that attend to one token each, and what one set of weights can do instead.
void compare_two_softmaxes(Lesson& lesson)
{
    const Trace two = lesson.trace().scope("two");
    const Term values = two.given("values[m, d_v]", Matrix{{0, 0}, {1, 0}, {0, 1}});
    const Term scores = two.given("scores[h, m]", Matrix{{0, 8, 0}, {0, 0, 8}});
    //! [two]
    const Term weights = two("weights[h, m]", softmax(scores));
    const Term first = matmul(row(weights, 0), matrix_columns(values, 0, 1));
    const Term second = matmul(row(weights, 1), matrix_columns(values, 1, 2));
    const Term apart = two("apart[d_v]", concat(std::vector{first, second}, 0));
    //! [two]
    //! [one]
    const Term sum = two("sum[m]", sum_along(scores, 0));
    const Term joint = two("joint[m]", softmax(sum));
    const Term together = two("together[d_v]", matmul(joint, values));
    //! [one]
    lesson.expect("one softmax shares a total weight of 1 between both tokens",
                  *sum_all(together) < 1);
    lesson.expect("two give each of them nearly 1", *min_all(apart) > 0.99);
}

// ----------------------------------------------------------------------------- 5. values

/// A head multiplies its average by W_v and by its rows of W^O: together one matrix of
/// low rank.
void join_value_maps(Lesson& lesson, const Term<Matrix>& inputs, const Given& given,
                     const std::vector<Head>& each)
{
    std::vector<Term<Matrix>> said;
    for (std::size_t head = 0; head < heads; ++head) {
        const Trace trace = lesson.trace().scope("head", head);
        const auto& [query_weights, form, scores] = each[head];
        //! [maps]
        const Term value_weights =
            trace("value_weights[d_model, d_v]", of_head(given.value, head));
        const std::size_t d_v = value_weights.shape(1);
        const Term rows = slice(given.output, head * d_v, (head + 1) * d_v);
        const Term map = trace("map[d_model, d_out]", matmul(value_weights, rows));
        const Term weights =
            trace("weights[n, m]", softmax(scores / sqrt(size_along(query_weights, 1))));
        said.push_back(trace("says[n, d_out]", matmul(matmul(weights, inputs), map)));
        //! [maps]
    }
    const Term output = lesson.trace()("output[n, d_out]", said[0] + said[1]);
    lesson.expect_equal("a form and a map per head give the output of multi-head "
                        "attention",
                        output,
                        multi_head_attention(*inputs, given.maps(), {heads}).output);
}

// ----------------------------------------------------------------------------- 6. counts

/// Parameters at the paper's size: forms and maps in full, or each as a product of two
/// narrow matrices.
void count(Lesson& lesson)
{
    const Trace cost = lesson.trace().scope("cost");
    const WholeNumbers whole(cost);
    const Term d_model = whole.given("d_model", 512), h = whole.given("h", 8);
    const Term d_k = whole("d_k", d_model / h);
    //! [count]
    const Term full = whole("full", 2 * h * square(d_model));
    const Term narrow = whole("narrow", 2 * h * 2 * d_model * d_k);
    const Term talking = whole("talking", 2 * square(h));
    //! [count]
    lesson.table({"parameters: in full", "as narrow products", "for mixing heads"},
                 {{*full, *narrow, *talking}});
}

// ---------------------------------------------------------------------- 7. talking heads

/// Each softmax is applied to a mixture of all heads' scores. Its form is the same
/// mixture of the heads' forms.
void talk(Lesson& lesson, const Term<Matrix>& inputs, const Given& given,
          const std::vector<Head>& each)
{
    const auto mixed = [](const Term<Matrix>& a, const Term<Matrix>& b,
                          const Term<Matrix>& mixture, std::size_t into) {
        return a * entry(mixture, 0, into) + b * entry(mixture, 1, into);
    };
    std::vector<Term<Matrix>> weights;
    for (std::size_t into = 0; into < heads; ++into) {
        const Trace trace = lesson.trace().scope("mixed", into);
        //! [mixed]
        const Term form =
            trace("form[d_model, d_model]",
                  mixed(each[0].form, each[1].form, given.talking_scores, into));
        //! [mixed]
        rank_of_form(trace, form);
        const Term scores =
            trace("scores[n, m]", matmul(matmul(inputs, form), transpose(inputs)));
        const Term d_k = size_along(each[0].query_weights, 1);
        weights.push_back(trace("weights[n, m]", softmax(scores / sqrt(d_k))));
    }

    const Trace talking =
        lesson.trace().scope("talking", {{"x", "inputs"},
                                         {"query_weights", "query_weights"},
                                         {"key_weights", "key_weights"},
                                         {"value_weights", "value_weights"},
                                         {"output_weights", "output_weights"},
                                         {"talking_scores", "talking_scores"},
                                         {"talking_weights", "talking_weights"}});
    const MultiHeadWeights maps = given.maps();
    const TalkingHeadsWeights learned{maps, *given.talking_scores,
                                      *given.talking_weights};
    //! [talk]
    const MultiHead found = talking_heads_attention(*inputs, learned, {}, talking);
    //! [talk]
    for (std::size_t into = 0; into < heads; ++into)
        lesson.expect_equal("talking head " + std::to_string(into) +
                                " has the scores of a mixture of forms",
                            mixed(weights[0], weights[1], given.talking_weights, into),
                            found.weights[into]);

    const Matrix identity{{1, 0}, {0, 1}};
    lesson.expect_equal(
        "with identities as mixing matrices, the output is that of multi-head attention",
        talking_heads_attention(*inputs, {maps, identity, identity}).output,
        multi_head_attention(*inputs, maps, {heads}).output);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("22_low_rank_and_talking_heads", argc, argv, teach);
}
