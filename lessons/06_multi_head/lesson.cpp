// Lesson 6: several heads.
//
// One head gives each query one row of weights, and the row sums to 1. A token that has
// to use several other tokens for several reasons needs several rows. Multi-head
// attention computes h attentions side by side, each with its own small queries, keys and
// values, concatenates their contexts, and multiplies the result by one more matrix, W^O.

#include "cost.hpp"

#include "../lesson.hpp"

#include "attn/core/shape.hpp"
#include "attn/reference/layers/multi_head.hpp"

using namespace attn;

namespace {

constexpr std::size_t heads = 2;

/// The weights of all heads, packed: head i has the columns from i d_k up to (i + 1) d_k.
struct Weights {
    Term<Matrix> query, key, value, output;
};

Term<Matrix> attend_as(std::size_t head, const Trace& trace, const Term<Matrix>& inputs,
                       const Weights& weights);
Term<Tensor3> attend_packed(const Trace& trace, const Term<Matrix>& inputs,
                            const Weights& weights);

void teach(Lesson& lesson)
{
    const Trace& trace = lesson.trace();

    lesson.heading(
        "1. The tokens of lesson 1, and weights for two heads of two features each");
    const Term inputs = lesson.input("inputs[n, d_model]",
                                     Matrix{{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}});
    const Weights weights{
        lesson.input("query_weights[d_model, h_d_k]",
                     Matrix{{1, 0, 0, 1}, {1, 0, 1, 0}, {0, 1, 0, 1}, {0, 2, 1, 2}}),
        lesson.input("key_weights[d_model, h_d_k]",
                     Matrix{{0, 1, 1, 0}, {1, 0, -1, 1}, {0, 1, 1, 0}, {1, 1, 0, -1}}),
        lesson.input("value_weights[d_model, h_d_v]",
                     Matrix{{0, 2, 1, 0}, {0, 3, 0, 1}, {1, 0, 3, 0}, {1, 1, 0, 2}}),
        lesson.input(
            "output_weights[h_d_v, d_out]",
            Matrix{{1, 0, 0.5, 0}, {0, 1, 0, -0.5}, {0.5, 0, 1, 0}, {0, -0.5, 0, 1}})};
    if (weights.query.shape(1) % heads != 0 || weights.value.shape(1) % heads != 0)
        throw ShapeError("the columns of query_weights and value_weights must divide "
                         "into 2 heads of equal width");

    lesson.heading("2. Each head in turn; the scopes head.0 and head.1 name their steps");
    //! [loop]
    std::vector<Term<Matrix>> contexts;
    for (std::size_t head = 0; head < heads; ++head)
        contexts.push_back(attend_as(head, trace.scope("head", head), inputs, weights));
    const Term merged = trace("merged[n, h_d_v]", concat(contexts, -1));
    //! [loop]

    lesson.heading("3. W^O: each feature of the output is a sum over all heads");
    //! [output]
    const Term output = trace("output[n, d_out]", matmul(merged, weights.output));
    //! [output]
    const std::size_t n = inputs.shape(0), d_v = weights.value.shape(1) / heads;
    const Trace first = trace.scope("heard", 0), second = trace.scope("heard", 1);
    //! [parts]
    const Term of_0 =
        first("output[n, d_out]", matmul(contexts[0], slice(weights.output, 0, d_v)));
    const Term of_1 = second("output[n, d_out]",
                             matmul(contexts[1], slice(weights.output, d_v, 2 * d_v)));
    //! [parts]
    lesson.expect_equal(
        "the output is the sum of each head's context times its rows of W^O", of_0 + of_1,
        output);

    lesson.heading("4. All heads in the same products, with an axis h");
    const Trace packed = trace.scope("packed");
    const Term context = attend_packed(packed, inputs, weights);
    //! [merge]
    const Term merged_at_once =
        packed("merged[n, h_d_v]",
               reshape<Matrix>(permute(context, {1, 0, 2}), {n, heads * d_v}));
    //! [merge]
    lesson.expect_equal("packed heads give what the loop gave", merged_at_once, merged);

    // The shape is the same, but rows mix several tokens.
    lesson.heading("5. A mistake: merging without the transpose");
    //! [unmerged]
    const Term wrong =
        packed("reshaped[n, h_d_v]", reshape<Matrix>(context, {n, heads * d_v}));
    //! [unmerged]
    if (lesson.is_example())
        lesson.expect("the shape is right, the numbers are wrong",
                      *wrong != *merged_at_once);

    lesson.heading("6. What heads cost: this example, then 100 tokens of 512 features");
    count_cost(lesson, heads, n, inputs.shape(1));

    lesson.heading("7. The library's multi_head_attention, with and without W^O");
    //! [library]
    MultiHeadWeights learned{{*weights.query},
                             {*weights.key},
                             {*weights.value},
                             LinearWeights{*weights.output}};
    const Term same = multi_head_attention(inputs, learned, {heads}).output;
    //! [library]
    lesson.expect_equal("multi_head_attention gives the same output", same, output);
    learned.output.reset();
    lesson.expect_equal("without W^O it gives the concatenated contexts",
                        multi_head_attention(inputs, learned, {heads}).output, merged);
}

/// One head: scaled dot-product attention with this head's columns of the weights.
Term<Matrix> attend_as(std::size_t head, const Trace& trace, const Term<Matrix>& inputs,
                       const Weights& weights)
{
    //! [share]
    const auto share = [&](const Term<Matrix>& packed) {
        const std::size_t width = packed.shape(1) / heads;
        return matrix_columns(packed, head * width, (head + 1) * width);
    };
    const Term query_weights = trace("query_weights[d_model, d_k]", share(weights.query));
    const Term key_weights = trace("key_weights[d_model, d_k]", share(weights.key));
    const Term value_weights = trace("value_weights[d_model, d_v]", share(weights.value));
    //! [share]

    //! [one_head]
    const Term queries = trace("queries[n, d_k]", matmul(inputs, query_weights));
    const Term keys = trace("keys[m, d_k]", matmul(inputs, key_weights));
    const Term values = trace("values[m, d_v]", matmul(inputs, value_weights));
    return scaled_dot_product_attention(queries, keys, values, {}, trace).context;
    //! [one_head]
}

//! [split]
/// From (n, h d) to (h, n, d): each row is cut into h pieces.
Term<Tensor3> split(const Term<Matrix>& packed)
{
    const std::size_t n = packed.shape(0), d = packed.shape(1) / heads;
    return permute(reshape<Tensor3>(packed, {n, heads, d}), {1, 0, 2});
}
//! [split]

/// All heads at once: as many products as one head takes, on tensors with an axis h.
Term<Tensor3> attend_packed(const Trace& trace, const Term<Matrix>& inputs,
                            const Weights& weights)
{
    //! [packed_maps]
    const Term query = trace("query[n, h_d_k]", matmul(inputs, weights.query));
    const Term key = trace("key[m, h_d_k]", matmul(inputs, weights.key));
    const Term value = trace("value[m, h_d_v]", matmul(inputs, weights.value));
    //! [packed_maps]

    //! [packed_split]
    const Term queries = trace("queries[h, n, d_k]", split(query));
    const Term keys = trace("keys[h, m, d_k]", split(key));
    const Term values = trace("values[h, m, d_v]", split(value));
    //! [packed_split]

    //! [packed_attention]
    const Term scores = trace("scores[h, n, m]", matmul(queries, transpose(keys)));
    const Term scaled = trace("scaled[h, n, m]", scores / sqrt(size_along(keys, 2)));
    const Term attention = trace("weights[h, n, m]", softmax(scaled));
    return trace("context[h, n, d_v]", matmul(attention, values));
    //! [packed_attention]
}

} // namespace

int main(int argc, char** argv)
{
    return Lesson::run("06_multi_head", argc, argv, teach);
}
