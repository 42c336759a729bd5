// Lesson 1: one query and three keys.
//
// Attention replaces a token's row of numbers by a weighted average over all tokens. This
// program computes the new row of the first of three tokens: its query is compared with
// every key, and the weights that follow average the values.

#include "../lesson.hpp"

#include "attn/reference/attention/dot_product.hpp"

#include <tuple>

using namespace attn;

namespace {

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    // Step 1. Three tokens with four features each, and the matrices that a model would
    // have learned.
    lesson.heading("1. Three tokens, and the matrices for keys, queries and values");
    //! [tokens]
    const Term inputs = lesson.input("inputs[n, d_model]",
                                     Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}});
    //! [tokens]
    const Term key_weights = lesson.input(
        "key_weights[d_model, d_k]", Matrix{{0, 0, 1}, {1, 1, 0}, {0, 1, 0}, {1, 1, 0}});
    const Term query_weights =
        lesson.input("query_weights[d_model, d_k]",
                     Matrix{{1, 0, 1}, {1, 0, 0}, {0, 0, 1}, {0, 1, 1}});
    const Term value_weights =
        lesson.input("value_weights[d_model, d_v]",
                     Matrix{{0, 2, 0}, {0, 3, 0}, {1, 0, 3}, {1, 1, 0}});

    // Step 2. One query, of the first token. A key and a value per token, the first one
    // included.
    lesson.heading("2. One query, three keys, three values");
    //! [query]
    const Term first_input = trace("first_input[d_model]", row(inputs, 0));
    const Term query = trace("query[d_k]", matmul(first_input, query_weights));
    //! [query]
    //! [keys]
    const Term keys = trace("keys[m, d_k]", matmul(inputs, key_weights));
    const Term values = trace("values[m, d_v]", matmul(inputs, value_weights));
    //! [keys]

    // Step 3. One dot product per key: the larger it is, the more relevant that token is
    // to the first one.
    lesson.heading("3. The scores: one dot product per key");
    //! [scores]
    const Term scores = trace("scores[m]", matmul(keys, query));
    //! [scores]

    // Step 4. Softmax makes the scores positive and makes them sum to one.
    lesson.heading("4. The weights: softmax of the scores");
    //! [weights]
    const Term weights = trace("weights[m]", softmax(scores));
    //! [weights]

    // Step 5. Multiply each value by its weight, and add the products up.
    lesson.heading("5. The output: each value times its weight, summed");
    //! [output]
    const Term weighted_values =
        trace("weighted_values[m, d_v]", each_row(weights) * values);
    const Term output = trace("output[d_v]", sum_along(weighted_values, 0));
    //! [output]

    // Step 6. The source of this example rounds the weights to 0.0, 0.5 and 0.5 before it
    // mixes the values. (To one decimal the first weight is 0.1, but then the three would
    // not sum to one.)
    if (lesson.is_example()) {
        lesson.heading("6. How rounded weights change the output");
        const Trace rounded = trace.scope("rounded");
        //! [rounded]
        const Term rounded_weights = rounded.given("weights[m]", Vector{0.0, 0.5, 0.5});
        const Term rounded_output =
            rounded("output[d_v]", matmul(rounded_weights, values));
        std::ignore = trace("rounding[d_v]", rounded_output - output);
        //! [rounded]

        // Step 7. Each score smaller by 3: which key is better, and by how much, stays.
        lesson.heading("7. Why softmax, and not a division by the sum");
        const Trace divided = trace.scope("divided");
        //! [divided]
        const Term smaller = divided("scores[m]", scores - 3);
        const Term divided_weights = divided("weights[m]", smaller / sum_all(smaller));
        std::ignore = divided("output[d_v]", matmul(divided_weights, values));
        //! [divided]
        lesson.expect_equal("softmax gives the smaller scores the same weights",
                            softmax(smaller), weights);
    }

    // The library computes the same in one call, for any number of queries.
    lesson.heading("8. The same in one call");
    const auto attention = dot_product_attention(in_front(query), keys, values);
    lesson.expect_equal("dot_product_attention gives the same weights", weights,
                        row(attention.weights, 0));
    lesson.expect_equal("and the same output", output, row(attention.context, 0));
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("01_single_query", argc, argv, teach);
}
