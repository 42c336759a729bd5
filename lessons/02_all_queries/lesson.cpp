// Lesson 2: all queries at once.
//
// Lesson 1 computed the output of one token. No output depends on another, so all of them
// are computed together with three matrix products, one row per query.

#include "../lesson.hpp"

#include "attn/reference/attention/dot_product.hpp"

#include <tuple>

using namespace attn;

namespace {

void take_the_wrong_axis(Lesson& lesson);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    // The tokens and weights of lesson 1.
    lesson.heading("1. The tokens and weights of lesson 1");
    const Term inputs = lesson.input("inputs[n, d_model]",
                                     Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}});
    const Term query_weights =
        lesson.input("query_weights[d_model, d_k]",
                     Matrix{{1, 0, 1}, {1, 0, 0}, {0, 0, 1}, {0, 1, 1}});
    const Term key_weights = lesson.input(
        "key_weights[d_model, d_k]", Matrix{{0, 0, 1}, {1, 1, 0}, {0, 1, 0}, {1, 1, 0}});
    const Term value_weights =
        lesson.input("value_weights[d_model, d_v]",
                     Matrix{{0, 2, 0}, {0, 3, 0}, {1, 0, 3}, {1, 1, 0}});

    // One query per token, so n and m are equal here. Elsewhere they can differ.
    lesson.heading("2. A query, a key and a value per token");
    //! [projections]
    const Term queries = trace("queries[n, d_k]", matmul(inputs, query_weights));
    const Term keys = trace("keys[m, d_k]", matmul(inputs, key_weights));
    const Term values = trace("values[m, d_v]", matmul(inputs, value_weights));
    //! [projections]

    // Row i holds query i's dot products with all keys. Softmax runs along the keys, so
    // that each row sums to one.
    lesson.heading("3. All scores in one product, all outputs in another");
    //! [scores]
    const Term scores = trace("scores[n, m]", matmul(queries, transpose(keys)));
    //! [scores]
    //! [merged]
    const Term merged =
        trace("merged[d_model, d_model]", matmul(query_weights, transpose(key_weights)));
    const Term merged_scores =
        trace("merged_scores[n, m]", matmul(matmul(inputs, merged), transpose(inputs)));
    //! [merged]
    lesson.expect_equal("one matrix in place of two gives the same scores", merged_scores,
                        scores);
    //! [weights]
    const Term weights = trace("weights[n, m]", softmax(scores));
    //! [weights]
    //! [output]
    const Term output = trace("output[n, d_v]", matmul(weights, values));
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
        const Term query = alone("query[d_k]", matmul(row(inputs, i), query_weights));
        //! [alone]
        const Term weight = alone("weights[m]", softmax(matmul(keys, query)));
        const Term result = alone("output[d_v]", matmul(weight, values));
        //! [alone]
        lesson.expect_equal("output " + token + " alone is row " + token + " of all",
                            result, row(output, i));
    }

    // In many texts a token is a column: I = [a^1 a^2 a^3]. Then matrices stand on the
    // left, Q = W^q I, and each product has the opposite order. The numbers are the same,
    // transposed.
    lesson.heading("6. Tokens as columns: the same numbers, transposed");
    const Trace columns = trace.scope("columns");
    const Term I = columns("I[d_model, n]", transpose(inputs));
    const Term W_q = columns("W_q[d_k, d_model]", transpose(query_weights));
    const Term W_k = columns("W_k[d_k, d_model]", transpose(key_weights));
    const Term W_v = columns("W_v[d_v, d_model]", transpose(value_weights));
    //! [columns]
    const Term Q = columns("Q[d_k, n]", matmul(W_q, I));
    const Term K = columns("K[d_k, m]", matmul(W_k, I));
    const Term V = columns("V[d_v, m]", matmul(W_v, I));
    const Term A = columns("A[m, n]", matmul(transpose(K), Q));
    const Term A_normalized = columns("A_normalized[m, n]", softmax(A, 0));
    const Term O = columns("O[d_v, n]", matmul(V, A_normalized));
    //! [columns]
    lesson.expect_equal("A is scores, transposed", transpose(A), scores);
    lesson.expect_equal("A' is weights, transposed", transpose(A_normalized), weights);
    lesson.expect_equal("O is output, transposed", transpose(O), output);

    // The source of the example rounds the weights before it mixes the values, most of
    // them to one decimal.
    if (lesson.is_example()) {
        lesson.heading("7. How rounded weights change the outputs");
        const Trace rounded = trace.scope("rounded");
        const Term rounded_weights = rounded.given(
            "weights[n, m]", Matrix{{0.0, 0.5, 0.5}, {0.0, 1.0, 0.0}, {0.0, 0.9, 0.1}});
        const Term rounded_output =
            rounded("output[n, d_v]", matmul(rounded_weights, values));
        std::ignore = trace("rounding[n, d_v]", rounded_output - output);
    }
}

/// Softmax along the keys, and along the queries by mistake. The scores here are not
/// symmetric. Those of lesson 1's tokens are, and with them the wrong weights are exactly
/// the right ones transposed.
void take_the_wrong_axis(Lesson& lesson)
{
    const Trace other = lesson.trace().scope("other");
    const Term queries = other.given("queries[n, d_k]", Matrix{{1, 0}, {0, 2}, {1, 1}});
    const Term keys = other.given("keys[m, d_k]", Matrix{{2, 0}, {1, 1}, {0, 1}});
    const Term values = other.given("values[m, d_v]", Matrix{{1, 0}, {0, 1}, {2, 2}});
    const Term scores = other("scores[n, m]", matmul(queries, transpose(keys)));
    //! [axis]
    const Term weights = other("weights[n, m]", softmax(scores));
    const Term sums = other("sums[n]", sum_along(weights, 1));
    const Term output = other("output[n, d_v]", matmul(weights, values));
    //! [axis]
    lesson.expect_equal("along the keys, the weights of each query sum to one", sums,
                        Vector{1, 1, 1});

    const Trace wrong = lesson.trace().scope("wrong");
    //! [wrong]
    const Term by_columns = wrong("weights[n, m]", softmax(scores, 0));
    const Term wrong_sums = wrong("sums[n]", sum_along(by_columns, 1));
    const Term wrong_output = wrong("output[n, d_v]", matmul(by_columns, values));
    //! [wrong]
    lesson.expect("along the queries they do not, and the output is different",
                  (*wrong_sums)(0) < 0.9 && *wrong_output != *output);
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("02_all_queries", argc, argv, teach);
}
