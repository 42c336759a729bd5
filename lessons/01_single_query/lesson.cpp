// Lesson 1: one query looks at three keys.
//
// A token is a row of numbers. To renew the first one, ask how relevant each of the three is to it, then mix what they
// have to say in that proportion.

#include "../lesson.hpp"

#include "attn/attention/dot_product.hpp"
#include "attn/ops/matmul.hpp"
#include "attn/ops/reduce.hpp"
#include "attn/ops/softmax.hpp"

#include <tuple>

using namespace attn;

namespace {

/// Each row of a matrix times a number of its own.
Matrix scale_rows(const Vector& factors, const Matrix& rows)
{
    return xt::view(factors, xt::all(), xt::newaxis()) * rows;
}

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    //! [tokens]
    // Step 1. Three tokens with four features each, and three ways to look at a token: as a question, as an answer to
    // be found by, and as what it has to say. Each way is a matrix; a model would have learned them.
    lesson.heading("1. Three tokens, and three ways to look at one");
    const Matrix inputs = lesson.input("inputs[n, d_model]",
                                       Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}});
    const Matrix key_weights = lesson.input(
        "key_weights[d_model, d_k]", Matrix{{0, 0, 1}, {1, 1, 0}, {0, 1, 0}, {1, 1, 0}});
    const Matrix query_weights =
        lesson.input("query_weights[d_model, d_k]",
                     Matrix{{1, 0, 1}, {1, 0, 0}, {0, 0, 1}, {0, 1, 1}});
    const Matrix value_weights =
        lesson.input("value_weights[d_model, d_v]",
                     Matrix{{0, 2, 0}, {0, 3, 0}, {1, 0, 3}, {1, 1, 0}});
    //! [tokens]

    //! [projections]
    // Step 2. The first token asks. Every token, the first one too, offers a key and a value.
    lesson.heading("2. One query, three keys, three values");
    const Vector first_input =
        trace("first_input[d_model]", "inputs[0]", Vector(xt::row(inputs, 0)));
    const Vector query = trace("query[d_k]", "first_input @ query_weights",
                               matmul(first_input, query_weights));
    const Matrix keys =
        trace("keys[m, d_k]", "inputs @ key_weights", matmul(inputs, key_weights));
    const Matrix values =
        trace("values[m, d_v]", "inputs @ value_weights", matmul(inputs, value_weights));
    //! [projections]

    //! [scores]
    // Step 3. How relevant is each token to the first? One dot product per key: the larger, the more alike.
    lesson.heading("3. How relevant is each token? One dot product per key");
    const Vector scores = trace("scores[m]", "keys @ query", matmul(keys, query));
    //! [scores]

    //! [weights]
    // Step 4. Scores become proportions: positive, and one in all.
    lesson.heading("4. From scores to proportions");
    const Vector weights = trace("weights[m]", "softmax(scores)", softmax(scores));
    //! [weights]

    //! [output]
    // Step 5. Multiply each value by its weight, and add up what was taken.
    lesson.heading("5. Multiply each value by its weight, and add up");
    const Matrix weighted_values =
        trace("weighted_values[m, d_v]", "weights[:, None] * values",
              scale_rows(weights, values));
    const Vector output = trace("output[d_v]", "sum(weighted_values, axis=0)",
                                sum_along(weighted_values, 0));
    //! [output]

    //! [rounded]
    // Step 6. The source of this example goes on with the weights 0.0, 0.5 and 0.5, and so ends with other digits. They
    // are rounding. (To one decimal the first weight is 0.1, but then the three would not sum to one.)
    if (lesson.is_example()) {
        lesson.heading("6. What rounding the weights does");
        const Trace rounded = trace.scope("rounded");
        const Vector rounded_weights = rounded("weights[m]", "", Vector{0.0, 0.5, 0.5});
        const Vector rounded_output =
            rounded("output[d_v]", "weights @ values", matmul(rounded_weights, values));
        std::ignore = trace("rounding[d_v]", "rounded.output - output",
                            Vector(rounded_output - output));
    }
    //! [rounded]

    // The library does the same in one call, for as many queries as it is given.
    lesson.heading("In one call");
    const Matrix queries = xt::view(query, xt::newaxis(), xt::all());
    const Attention attention = dot_product_attention(queries, keys, values);
    lesson.expect_equal("dot_product_attention gives the same weights", weights,
                        Vector(xt::row(attention.weights, 0)));
    lesson.expect_equal("and the same output", output,
                        Vector(xt::row(attention.context, 0)));
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("01_single_query", argc, argv, teach);
}
