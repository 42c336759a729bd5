// Lesson 2: all queries at once.
//
// Lesson 1 computed the output of one token. No output depends on another, so all of them
// are computed together with three matrix products, one row per query.

#include "../lesson.hpp"

#include "attn/reference/attention/dot_product.hpp"
#include "attn/reference/ops/matmul.hpp"
#include "attn/reference/ops/reduce.hpp"
#include "attn/reference/ops/softmax.hpp"

#include <tuple>

using namespace attn;

namespace {

/// Softmax down each column, as in texts whose tokens are columns.
Matrix softmax_columns(const Matrix& scores)
{
    return transpose(softmax(transpose(scores)));
}

/// Softmax along the keys, and along the queries by mistake. The scores here are not
/// symmetric. Those of lesson 1's tokens are, and with them the wrong weights are exactly
/// the right ones transposed.
void take_the_wrong_axis(Lesson& lesson)
{
    const Trace other = lesson.trace().scope("other");
    const Matrix queries = other("queries[n, d_k]", "", Matrix{{1, 0}, {0, 2}, {1, 1}});
    const Matrix keys = other("keys[m, d_k]", "", Matrix{{2, 0}, {1, 1}, {0, 1}});
    const Matrix values = other("values[m, d_v]", "", Matrix{{1, 0}, {0, 1}, {2, 2}});
    const Matrix scores =
        other("scores[n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));
    //! [axis]
    const Matrix weights = other("weights[n, m]", "softmax(scores)", softmax(scores));
    const Vector sums = other("sums[n]", "sum(weights, axis=1)", sum_along(weights, 1));
    const Matrix output =
        other("output[n, d_v]", "weights @ values", matmul(weights, values));
    //! [axis]
    lesson.expect_equal("along the keys, the weights of each query sum to one", sums,
                        Vector{1, 1, 1});

    const Trace wrong = lesson.trace().scope("wrong");
    //! [wrong]
    const Matrix by_columns =
        wrong("weights[n, m]", "softmax(other.scores, axis=0)", softmax_columns(scores));
    const Vector wrong_sums =
        wrong("sums[n]", "sum(weights, axis=1)", sum_along(by_columns, 1));
    const Matrix wrong_output =
        wrong("output[n, d_v]", "weights @ other.values", matmul(by_columns, values));
    //! [wrong]
    lesson.expect("along the queries they do not, and the output is different",
                  wrong_sums(0) < 0.9 && wrong_output != output);
}

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    // The tokens and weights of lesson 1.
    lesson.heading("1. The tokens and weights of lesson 1");
    const Matrix inputs = lesson.input("inputs[n, d_model]",
                                       Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}});
    const Matrix query_weights =
        lesson.input("query_weights[d_model, d_k]",
                     Matrix{{1, 0, 1}, {1, 0, 0}, {0, 0, 1}, {0, 1, 1}});
    const Matrix key_weights = lesson.input(
        "key_weights[d_model, d_k]", Matrix{{0, 0, 1}, {1, 1, 0}, {0, 1, 0}, {1, 1, 0}});
    const Matrix value_weights =
        lesson.input("value_weights[d_model, d_v]",
                     Matrix{{0, 2, 0}, {0, 3, 0}, {1, 0, 3}, {1, 1, 0}});

    // One query per token, so n and m are equal here. Elsewhere they can differ.
    lesson.heading("2. A query, a key and a value per token");
    //! [projections]
    const Matrix queries =
        trace("queries[n, d_k]", "inputs @ query_weights", matmul(inputs, query_weights));
    const Matrix keys =
        trace("keys[m, d_k]", "inputs @ key_weights", matmul(inputs, key_weights));
    const Matrix values =
        trace("values[m, d_v]", "inputs @ value_weights", matmul(inputs, value_weights));
    //! [projections]

    // Row i holds query i's dot products with all keys. Softmax runs along the keys, so
    // that each row sums to one.
    lesson.heading("3. All scores in one product, all outputs in another");
    //! [scores]
    const Matrix scores =
        trace("scores[n, m]", "queries @ keys.T", matmul(queries, transpose(keys)));
    //! [scores]
    //! [merged]
    const Matrix merged =
        trace("merged[d_model, d_model]", "query_weights @ key_weights.T",
              matmul(query_weights, transpose(key_weights)));
    const Matrix merged_scores =
        trace("merged_scores[n, m]", "inputs @ merged @ inputs.T",
              matmul(matmul(inputs, merged), transpose(inputs)));
    //! [merged]
    lesson.expect_equal("one matrix in place of two gives the same scores", merged_scores,
                        scores);
    //! [weights]
    const Matrix weights = trace("weights[n, m]", "softmax(scores)", softmax(scores));
    //! [weights]
    //! [output]
    const Matrix output =
        trace("output[n, d_v]", "weights @ values", matmul(weights, values));
    //! [output]
    lesson.expect_equal("dot_product_attention gives the same output", output,
                        dot_product_attention(queries, keys, values).context);

    if (lesson.is_example()) {
        lesson.heading("4. Softmax along the wrong axis, on asymmetric scores");
        take_the_wrong_axis(lesson);
    }

    // Each output depends on the inputs only, not on another output. So each can be
    // computed alone, in any order; here the last one comes first.
    lesson.heading("5. Each output alone, the last token first: the same numbers");
    for (std::size_t i = inputs.shape(0); i-- > 0;) {
        const std::string token = std::to_string(i);
        const Trace alone = trace.scope("alone", i);
        const Vector query = alone("query[d_k]", "inputs[" + token + "] @ query_weights",
                                   matmul(Vector(xt::row(inputs, i)), query_weights));
        //! [alone]
        const Vector weight =
            alone("weights[m]", "softmax(keys @ query)", softmax(matmul(keys, query)));
        const Vector result =
            alone("output[d_v]", "weights @ values", matmul(weight, values));
        //! [alone]
        lesson.expect_equal("output " + token + " alone is row " + token + " of all",
                            result, Vector(xt::row(output, i)));
    }

    // In many texts a token is a column: I = [a^1 a^2 a^3]. Then matrices stand on the
    // left, Q = W^q I, and each product has the opposite order. The numbers are the same,
    // transposed.
    lesson.heading("6. Tokens as columns: the same numbers, transposed");
    const Trace columns = trace.scope("columns");
    const Matrix I = columns("I[d_model, n]", "inputs.T", transpose(inputs));
    const Matrix W_q =
        columns("W_q[d_k, d_model]", "query_weights.T", transpose(query_weights));
    const Matrix W_k =
        columns("W_k[d_k, d_model]", "key_weights.T", transpose(key_weights));
    const Matrix W_v =
        columns("W_v[d_v, d_model]", "value_weights.T", transpose(value_weights));
    //! [columns]
    const Matrix Q = columns("Q[d_k, n]", "W_q @ I", matmul(W_q, I));
    const Matrix K = columns("K[d_k, m]", "W_k @ I", matmul(W_k, I));
    const Matrix V = columns("V[d_v, m]", "W_v @ I", matmul(W_v, I));
    const Matrix A = columns("A[m, n]", "K.T @ Q", matmul(transpose(K), Q));
    const Matrix A_normalized =
        columns("A_normalized[m, n]", "softmax(A, axis=0)", softmax_columns(A));
    const Matrix O = columns("O[d_v, n]", "V @ A_normalized", matmul(V, A_normalized));
    //! [columns]
    lesson.expect_equal("A is scores, transposed", transpose(A), scores);
    lesson.expect_equal("A' is weights, transposed", transpose(A_normalized), weights);
    lesson.expect_equal("O is output, transposed", transpose(O), output);

    // The source of the example rounds the weights before it mixes the values, most of
    // them to one decimal.
    if (lesson.is_example()) {
        lesson.heading("7. How rounded weights change the outputs");
        const Trace rounded = trace.scope("rounded");
        const Matrix rounded_weights =
            rounded("weights[n, m]", "",
                    Matrix{{0.0, 0.5, 0.5}, {0.0, 1.0, 0.0}, {0.0, 0.9, 0.1}});
        const Matrix rounded_output = rounded("output[n, d_v]", "weights @ values",
                                              matmul(rounded_weights, values));
        std::ignore = trace("rounding[n, d_v]", "rounded.output - output",
                            Matrix(rounded_output - output));
    }
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("02_all_queries", argc, argv, teach);
}
